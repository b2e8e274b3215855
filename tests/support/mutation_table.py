"""The mutations of `mutations.py`: which rule each breaks, where, and which tests check it."""

import re
from collections.abc import Iterator
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


# Below the tests (=) that check a rule: each file and rule (#), the right lines (-) and the wrong ones (+).
_TABLE = r"""
= merges/test_merge_worker.py::test_same_merges_as_the_reference
# native/merge/index.hpp: ties go to the greatest ids
- return one.key > other.key;
+ return one.key < other.key;
# native/merge/sketch.hpp: a phase goes below the minimum frequency
- <= min_frequency) break;
-       lowest = std::max(lowest_of(c), min_frequency);
+ <= min_frequency) break;
+       lowest = lowest_of(c);
# native/merge/indexed.hpp: a merge leaves its neighbours' counts
- if (index_.pair(number).count != 0) index_.pair(number).count -= change.weight;
+ static_cast<void>(number);
# native/merge/join.hpp: left and right are exchanged in a new pair
- if (weight != 0) note(key(join.made, symbol), weight, positions);
+ if (weight != 0) note(key(symbol, join.made), weight, positions);
# native/merge/join.hpp: two new tokens side by side count twice
- weight -= doubled.weight;
+
# native/merge/join.hpp: aaa is joined as (a, a) twice
- if (!joiner.occurs(at)) continue;
+
# native/merge/batch.hpp: a batch holds merges that a pair of its own may come before
- return joins_.empty() || count > reachable_;
+ return true;
= merges/test_merge_worker.py::test_counts_far_above_a_threshold_that_was_raised
# native/merge/index.hpp: a pair below a raised threshold is merged
- if (above_.front().count < threshold_) return kNoPair;
+
= merges/test_merge_worker.py::test_counts_of_a_level_that_was_opened_before_the_threshold_passed_it
# native/merge/index.hpp: a pair of a level below a raised threshold is merged
- if (open_ < threshold_) return kNoPair;
+
= merges/test_merge_worker.py::test_hard_counters_are_merged_as_the_reference_does
# native/merge/slots.hpp: a low part of a number in compact words is read as a byte
- return (found & marked_) == before_ && !(after_low_ && is_head(at[-1]));
+ return (found & marked_) == before_;
= merges/test_merge_worker.py::test_hard_counters_are_merged_as_the_reference_does
= merges/test_merge_worker.py::test_same_merges_as_the_reference
# native/merge/index.hpp: ties by bytes look at the left token only
- return left != 0 ? left < 0 : tokens_.compare(right_of(one.key), right_of(other.key)) < 0;
+ return left < 0;
# native/merge/index.hpp: equal counts come as they were found
- std::sort(ordered_.begin(), ordered_.end(), [this](const auto& a, const auto& b) { return worse(a, b); });
+
# native/merge/index.hpp: a new pair waits behind all of its count
- (!ordered_.empty() && worse(late_.front(), ordered_.back()))
+ !ordered_.empty()
# native/merge/index.hpp: a pair keeps the count that it was queued with
- best = pop_heap(late_);
-         }
-         if (pairs_[best.number].count == best.count) return best.number;
+ best = pop_heap(late_);
+         }
+         return best.number;
# native/merge/indexed.hpp: a phase forgets new pairs at its threshold
- if (change.weight >= index_.threshold()) appeared.push_back(change);
+ if (change.weight > index_.threshold()) appeared.push_back(change);
# native/merge/merge.cpp: a phase that finds nothing is the last one
- return threshold > options_.rules.min_frequency ? std::max(threshold / 2, options_.rules.min_frequency) : 0;
+ return threshold > options_.rules.min_frequency ? 0 : 0;
# native/merge/sketch.hpp: the bound of a count is rounded down
- + (weight >> weight_shift_) + (weight_shift_ != 0);
+ + (weight >> weight_shift_);
= merges/test_merge_worker.py::test_rare_pieces_are_left_out_and_ranges_may_be_read_as_they_are_needed
# native/merge/words.cpp: pieces of just the minimum count are left out
- if (tokens < 2 || batch.counts[i] < min_count) continue;
+ if (tokens < 2 || batch.counts[i] <= min_count) continue;
= commands/test_verify.py::test_the_replay_is_the_definition
# native/verify/verify.hpp: verify has another tie-break
- if (a_right != b_right) return a_right > b_right;
+ if (a_right != b_right) return a_right < b_right;
= commands/test_verify.py::test_long_pieces_are_replayed_by_the_definition
# native/verify/verify.hpp: verify loses the pairs before a join
- if (const uint32_t before = slots_[at - 1]; before != kNone)
+ if (const uint32_t before = slots_[at - 1]; before > kNone)
= counts/test_counter_file.py::test_native_combination_is_a_sum
# native/count/piece_table.cpp: combining keeps the last count of a piece
- slot.count += count;
+ slot.count = count;
= commands/test_combine.py::test_native_weights_are_exact_and_in_any_order
# native/count/combine.cpp: weighted counts are rounded down
- * weight.numerator * 2 + weight.denominator;
+ * weight.numerator * 2;
= corpus/test_specials.py
# native/text/specials.cpp: of special tokens the shortest is found
- return tokens_[a].size() > tokens_[b].size();
+ return tokens_[a].size() < tokens_[b].size();
= counts/test_count_worker.py::test_any_block_window_and_policy
# native/count/counting.cpp: a special token is counted as text
- begin_ = searched_ = match.end;
+ begin_ = match.start, searched_ = match.end;
# native/count/counting.cpp: a special token across two reads is missed
- specials_.empty() ? 0 : specials_.longest() - 1;
+ 0;
= tokenizer/test_tokenizer.py::test_short_pieces_are_merged_by_definition
# native/encode/chain_merge.cpp: a short piece is encoded by the longest tokens
- (count == 0 || !joinable_.has(piece[at - 1], piece[at]) || fit_cached(row[count - 1], token, fits))
+ true
# native/encode/rank_merge.cpp: equal ranks in a piece are taken from the right
- const std::greater<> least_first;
+ const auto least_first = [](uint64_t a, uint64_t b) { return a >> 32 != b >> 32 ? a > b : a < b; };
= tokenizer/test_tokenizer.py::test_long_pieces_are_merged_by_definition
# native/encode/rank_merge.cpp: a long piece is encoded by the highest rank
- const std::greater<> least_first;
+ const std::less<> least_first;
= corpus/test_chunks.py
# corpus/chunks.py: chunks are cut behind a special token
- return None if match is None or match[0] >= high else match[0]
+ return None if match is None or match[0] >= high else match[1]
# corpus/chunks.py: chunks are cut inside a special token
- if not any(token is not None and token[1] >= cut + width for token in tokens):
+ if cut:
= commands/test_verify.py::test_leaving_out_every_piece_is_refused
# merges/merge_worker.py: a counter of pieces of just the minimum count is refused
- if most >= least:
+ if most > least:
= merges/test_merge_worker.py::test_hard_counters_are_merged_as_the_reference_does
# native/merge/indexed.hpp: a pair that a batch makes and takes apart again keeps its count
- if (pair.key == change.key) pair.weight -= change.weight;
+ if (pair.key == change.key) static_cast<void>(pair);
= merges/test_merge_worker.py::test_lists_of_positions_that_are_far_apart
# native/merge/positions.hpp: a list forgets the high digits of a distance
- if (distance >= kMore) [[unlikely]]
+ if (distance >= 2 * kMore) [[unlikely]]
# native/merge/positions.hpp: a distance begins anew in each chunk of a list
- high_ = high;
+ high_ = 0;
= merges/test_shared_worker.py::test_parts_make_the_merges_of_the_reference_also_if_some_are_lost
# native/merge/part.cpp: a wrong guess stays in the words
- for (size_t i = guess_.size(); i-- > certain;)
+ for (size_t i = certain; i-- > certain;)
# native/merge/shared.hpp: a guess ends with the last pair that is in the queue, in any order
- if (index_->pair(best).key != key) {
+ if (best == kNoPair) {
# merges/shared_worker.py: a part that is made again in a phase has no lists
- return "index", (training.version, bytes(training.indexed()))
+ return "facts", ()
= merges/test_merge_worker.py::test_a_list_of_more_positions_than_are_read_at_once
# native/merge/join.hpp: new pairs are listed where their token does not start
- Slots<S>::starting(symbols + position) != join.made) continue;
+ Slots<S>::starting(symbols + position) == join.made) continue;
= corpus/test_json_lines.py::test_records_are_those_of_the_standard_json
# native/text/json_field.cpp: a later value of a key in JSON does not replace a text
-     if (on_path) found_ = on_path_
+     if (on_path && found_ != Found::text) found_ = on_path_
= corpus/test_json_lines.py::test_strings_of_any_escapes_are_read_as_the_standard_json_reads_them
# native/text/json_field.cpp: a surrogate in JSON takes any escape behind it
- four_digits(low) && low >> 10 == 0x37
+ four_digits(low)
= merges/test_parity.py::test_merges_are_those_of_the_definition
# native/merge/parity.hpp: a language with just its share of the choices is passed over
- <= most_) return best;
+ < most_) return best;
# native/merge/parity_training.hpp: a pair is listed in the shards of the language that it is frequent in
- mark.made != join.made || mark.fresh == 0;
+ mark.made != join.made || mark.fresh == 0 || queue_of(s) != mark.queue;
"""
_ENTRY = re.compile(r"((?:= .+\n)*)# (\S+): (.+)\n((?:- .+\n)+)((?:\+.*\n)+)")


def _mutations() -> Iterator[Mutation]:
    tests: tuple[str, ...] = ()
    for checked, file, name, *edit in _ENTRY.findall(_TABLE):
        tests = tuple(test[2:] for test in checked.splitlines()) or tests
        right, wrong = ("\n".join(line[2:] for line in side.splitlines()) for side in edit)
        yield Mutation(name, file, right, wrong, tests)


MUTATIONS = tuple(_mutations())
assert not _ENTRY.sub("", _TABLE).strip(), "a line of the table cannot be read"
