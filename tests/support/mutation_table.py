"""The mutations of `mutations.py`: which rule each breaks, where, and which tests check it."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Mutation:
    """In `file`, below `pipeline`, the text `right`, which occurs there once, becomes `wrong`; `tests` check the rule.

    tests: files in `tests`, or `file::function`.
    """

    name: str
    file: str
    right: str
    wrong: str
    tests: tuple[str, ...]


_ENGINE = "merges/test_merge_worker.py"
_REFERENCE = (f"{_ENGINE}::test_same_merges_as_the_reference",)
_LEVELS = (f"{_ENGINE}::test_many_equal_counts_come_in_the_order_of_the_tie_break", *_REFERENCE)
_LARGE = (f"{_ENGINE}::test_counts_beyond_32_bits", *_REFERENCE)
_RARE = (f"{_ENGINE}::test_rare_pieces_are_left_out_and_ranges_may_be_read_as_they_are_needed",)
_TAKEN_APART = (f"{_ENGINE}::test_a_pair_that_a_batch_makes_and_takes_apart_again",)
_LONG_LISTS = (f"{_ENGINE}::test_a_list_of_more_positions_than_are_read_at_once",)
_FAR_APART = (f"{_ENGINE}::test_lists_of_positions_that_are_far_apart",)
_SHARED = ("merges/test_shared_worker.py::test_parts_make_the_merges_of_the_reference_also_if_some_are_lost",)
_REPLAY = ("commands/test_verify.py::test_the_replay_is_the_definition",)
_LONG_REPLAY = ("commands/test_verify.py::test_long_pieces_are_replayed_by_the_definition",)
_SUM = ("counts/test_counter_file.py::test_native_combination_is_a_sum",)
_WEIGHTS = ("commands/test_combine.py::test_native_weights_are_exact_and_in_any_order",)
_SPECIALS = ("corpus/test_specials.py",)
_COUNTING = ("counts/test_count_worker.py::test_any_block_window_and_policy",)
_CUTS = ("corpus/test_chunks.py",)
_SHORT = ("tokenizer/test_tokenizer.py::test_short_pieces_are_merged_by_definition",)
_LONG = ("tokenizer/test_tokenizer.py::test_long_pieces_are_merged_by_definition",)
_JSON = ("corpus/test_json_lines.py::test_records_are_those_of_the_standard_json",)
_ESCAPES = ("corpus/test_json_lines.py::test_strings_of_any_escapes_are_read_as_the_standard_json_reads_them",)
_RAISED = ("merges/test_merge_worker.py::test_counts_far_above_a_threshold_that_was_raised",)
_OPENED = ("merges/test_merge_worker.py::test_counts_of_a_level_that_was_opened_before_the_threshold_passed_it",)
_COMPACT = ("merges/test_merge_worker.py::test_compact_words_tell_a_byte_from_a_number_that_looks_like_it",)
_PARITY = ("merges/test_parity.py::test_merges_are_those_of_the_definition",)
_RAREST = ("commands/test_verify.py::test_leaving_out_every_piece_is_refused",)

MUTATIONS = (
    Mutation(
        "ties go to the greatest ids",
        "native/merge/index.hpp",
        "return one.key > other.key;",
        "return one.key < other.key;",
        _REFERENCE,
    ),
    Mutation(
        "a pair below a raised threshold is merged",
        "native/merge/index.hpp",
        "if (above_.front().count < threshold_) return kNoPair;",
        "",
        _RAISED,
    ),
    Mutation(
        "a pair of a level below a raised threshold is merged",
        "native/merge/index.hpp",
        "if (open_ < threshold_) return kNoPair;",
        "",
        _OPENED,
    ),
    Mutation(
        "a low part of a number in compact words is read as a byte",
        "native/merge/slots.hpp",
        "return (found & marked_) == before_ && !(after_low_ && is_head(at[-1]));",
        "return (found & marked_) == before_;",
        _COMPACT,
    ),
    Mutation(
        "ties by bytes look at the left token only",
        "native/merge/index.hpp",
        "return left != 0 ? left < 0 : tokens_.compare(right_of(one.key), right_of(other.key)) < 0;",
        "return left < 0;",
        _LEVELS,
    ),
    Mutation(
        "equal counts come as they were found",
        "native/merge/index.hpp",
        "std::sort(ordered_.begin(), ordered_.end(), [this](const auto& a, const auto& b) { return worse(a, b); });",
        "",
        _LEVELS,
    ),
    Mutation(
        "a new pair waits behind all of its count",
        "native/merge/index.hpp",
        "(!ordered_.empty() && worse(late_.front(), ordered_.back()))",
        "!ordered_.empty()",
        _LEVELS,
    ),
    Mutation(
        "a pair keeps the count that it was queued with",
        "native/merge/index.hpp",
        "best = pop_heap(late_);\n        }\n        if (pairs_[best.number].count == best.count) return best.number;",
        "best = pop_heap(late_);\n        }\n        return best.number;",
        _LEVELS,
    ),
    Mutation(
        "a phase forgets new pairs at its threshold",
        "native/merge/indexed.hpp",
        "if (change.weight >= index_.threshold()) appeared.push_back(change);",
        "if (change.weight > index_.threshold()) appeared.push_back(change);",
        _LEVELS,
    ),
    Mutation(
        "a phase that finds nothing is the last one",
        "native/merge/merge.cpp",
        "return threshold > options_.min_frequency ? std::max(threshold / 2, options_.min_frequency) : 0;",
        "return threshold > options_.min_frequency ? 0 : 0;",
        _LARGE,
    ),
    Mutation(
        "a phase goes below the minimum frequency",
        "native/merge/sketch.hpp",
        "<= min_frequency) break;\n      lowest = std::max(lowest_of(c), min_frequency);",
        "<= min_frequency) break;\n      lowest = lowest_of(c);",
        _REFERENCE,
    ),
    Mutation(
        "the bound of a count is rounded down",
        "native/merge/sketch.hpp",
        "+ (weight >> weight_shift_) + (weight_shift_ != 0);",
        "+ (weight >> weight_shift_);",
        _LARGE,
    ),
    Mutation(
        "a merge leaves its neighbours' counts",
        "native/merge/indexed.hpp",
        "if (index_.pair(number).count != 0) index_.pair(number).count -= change.weight;",
        "static_cast<void>(number);",
        _REFERENCE,
    ),
    Mutation(
        "left and right are exchanged in a new pair",
        "native/merge/join.hpp",
        "if (weight != 0) note(key(join.made, symbol), weight, positions);",
        "if (weight != 0) note(key(symbol, join.made), weight, positions);",
        _REFERENCE,
    ),
    Mutation(
        "two new tokens side by side count twice",
        "native/merge/join.hpp",
        "weight -= doubled.weight;",
        "",
        _REFERENCE,
    ),
    Mutation(
        "aaa is joined as (a, a) twice",
        "native/merge/join.hpp",
        "if (!joiner.occurs(at)) continue;",
        "",
        _REFERENCE,
    ),
    Mutation(
        "pieces of just the minimum count are left out",
        "native/merge/words.cpp",
        "if (tokens < 2 || batch.counts[i] < min_count) continue;",
        "if (tokens < 2 || batch.counts[i] <= min_count) continue;",
        _RARE,
    ),
    Mutation(
        "verify has another tie-break",
        "native/verify/verify.hpp",
        "if (a_right != b_right) return a_right > b_right;",
        "if (a_right != b_right) return a_right < b_right;",
        _REPLAY,
    ),
    Mutation(
        "verify loses the pairs before a join",
        "native/verify/verify.hpp",
        "if (const uint32_t before = slots_[at - 1]; before != kNone)",
        "if (const uint32_t before = slots_[at - 1]; before > kNone)",
        _LONG_REPLAY,
    ),
    Mutation(
        "combining keeps the last count of a piece",
        "native/count/piece_table.cpp",
        "slot.count += count;",
        "slot.count = count;",
        _SUM,
    ),
    Mutation(
        "weighted counts are rounded down",
        "native/count/combine.cpp",
        "* weight.numerator * 2 + weight.denominator;",
        "* weight.numerator * 2;",
        _WEIGHTS,
    ),
    Mutation(
        "of special tokens the shortest is found",
        "native/text/specials.cpp",
        "return tokens_[a].size() > tokens_[b].size();",
        "return tokens_[a].size() < tokens_[b].size();",
        _SPECIALS,
    ),
    Mutation(
        "a special token is counted as text",
        "native/count/counting.cpp",
        "begin_ = searched_ = match.end;",
        "begin_ = match.start, searched_ = match.end;",
        _COUNTING,
    ),
    Mutation(
        "a special token across two reads is missed",
        "native/count/counting.cpp",
        "specials_.empty() ? 0 : specials_.longest() - 1;",
        "0;",
        _COUNTING,
    ),
    Mutation(
        "a short piece is encoded by the longest tokens",
        "native/encode/chain_merge.cpp",
        "(count == 0 || !joinable_.has(piece[at - 1], piece[at]) || fit_cached(row[count - 1], token, fits))",
        "true",
        _SHORT,
    ),
    Mutation(
        "equal ranks in a piece are taken from the right",
        "native/encode/rank_merge.cpp",
        "const std::greater<> least_first;",
        "const auto least_first = [](uint64_t a, uint64_t b) { return a >> 32 != b >> 32 ? a > b : a < b; };",
        _SHORT,
    ),
    Mutation(
        "a long piece is encoded by the highest rank",
        "native/encode/rank_merge.cpp",
        "const std::greater<> least_first;",
        "const std::less<> least_first;",
        _LONG,
    ),
    Mutation(
        "chunks are cut behind a special token",
        "corpus/chunks.py",
        "return None if match is None or match[0] >= high else match[0]",
        "return None if match is None or match[0] >= high else match[1]",
        _CUTS,
    ),
    Mutation(
        "chunks are cut inside a special token",
        "corpus/chunks.py",
        "if not any(token is not None and token[1] >= cut + width for token in tokens):",
        "if cut:",
        _CUTS,
    ),
    Mutation(
        "a counter of pieces of just the minimum count is refused",
        "merges/merge_worker.py",
        "if most >= task.min_piece_count:",
        "if most > task.min_piece_count:",
        _RAREST,
    ),
    Mutation(
        "a batch holds merges that a pair of its own may come before",
        "native/merge/batch.hpp",
        "return joins_.empty() || count > reachable_;",
        "return true;",
        _REFERENCE,
    ),
    Mutation(
        "a pair that a batch makes and takes apart again keeps its count",
        "native/merge/indexed.hpp",
        "if (pair.key == change.key) pair.weight -= change.weight;",
        "if (pair.key == change.key) static_cast<void>(pair);",
        _TAKEN_APART,
    ),
    Mutation(
        "a list forgets the high digits of a distance",
        "native/merge/positions.hpp",
        "if (distance >= kMore) [[unlikely]]",
        "if (distance >= 2 * kMore) [[unlikely]]",
        _FAR_APART,
    ),
    Mutation(
        "a distance begins anew in each chunk of a list",
        "native/merge/positions.hpp",
        "    high_ = high;\n",
        "    high_ = 0;\n",
        _FAR_APART,
    ),
    Mutation(
        "a wrong guess stays in the words",
        "native/merge/part.cpp",
        "for (size_t i = guess_.size(); i-- > certain;)",
        "for (size_t i = certain; i-- > certain;)",
        _SHARED,
    ),
    Mutation(
        "new pairs are listed where their token does not start",
        "native/merge/join.hpp",
        "Slots<S>::starting(symbols + position) != join.made) continue;",
        "Slots<S>::starting(symbols + position) == join.made) continue;",
        _LONG_LISTS,
    ),
    Mutation(
        "a guess ends with the last pair that is in the queue, in any order",
        "native/merge/shared.hpp",
        "if (index_->pair(best).key != key) {",
        "if (best == kNoPair) {",
        _SHARED,
    ),
    Mutation(
        "a part that is made again in a phase has no lists",
        "merges/shared_worker.py",
        'return "index", (training.version, bytes(training.indexed()))',
        'return "facts", ()',
        _SHARED,
    ),
    Mutation(
        "a later value of a key in JSON does not replace a text",
        "native/text/json_field.cpp",
        "    if (on_path) found_ = on_path_",
        "    if (on_path && found_ != Found::text) found_ = on_path_",
        _JSON,
    ),
    Mutation(
        "a surrogate in JSON takes any escape behind it",
        "native/text/json_field.cpp",
        "four_digits(low) && low >> 10 == 0x37",
        "four_digits(low)",
        _ESCAPES,
    ),
    Mutation(
        "a language with just its share of the choices is passed over",
        "native/merge/parity.hpp",
        "<= most_) return best;",
        "< most_) return best;",
        _PARITY,
    ),
    Mutation(
        "a pair is listed in the shards of the language that it is frequent in",
        "native/merge/parity_training.hpp",
        "mark.made != join.made || mark.fresh == 0;",
        "mark.made != join.made || mark.fresh == 0 || queue_of(s) != mark.queue;",
        _PARITY,
    ),
)
