// The threads of one call of Encoder::encode_batch.
//
// Idea: texts are taken in turns of some bytes, from a counter. A long text is cut into parts of that size where ids
// before and behind are provably those of two texts: at borders. A turn writes its ids in memory of its own; the caller's
// thread gives those of the first texts away, some turns at once, while the others encode.
#include <deque>
#include <exception>
#include <system_error>
#include <thread>

#include "encode/encode.hpp"

namespace bpe {

namespace {

constexpr size_t kReachBytes = 1 << 10;  // in which a border is searched for
constexpr size_t kGivenTurns = 32;       // at least, while there is more to encode

}  // namespace

class Encoder::Batch {
 public:
  Batch(Encoder& encoder, std::span<const std::string_view> texts, const SpecialTokens* specials)
      : encoder_(encoder), texts_(texts), specials_(specials) {}

  void run(size_t threads, size_t turn_bytes, const std::function<void(std::span<const Parts>)>& give) {
    const size_t bytes = plan(turn_bytes, threads > 1);
    threads = std::clamp<size_t>(threads, 1, std::max<size_t>(bytes / turn_bytes, 1));
    failures_.resize(threads);
    std::vector<std::thread> others;
    others.reserve(threads);  // what is thrown later would end the process: threads that run cannot be destroyed
    for (size_t thread = 1; thread < threads; ++thread) {
      try {
        others.emplace_back([this, thread] { work(thread, [](Lease&) {}); });
      } catch (const std::system_error&) {
        break;  // the system allows no more threads: those that run take all texts
      }
    }
    work(0, [&](Lease& state) {
      if (others.empty() || waiting() < kGivenTurns) return;
      state.reset();  // another may want it while this thread waits
      give_waiting(give);
      state = encoder_.lease();
    });
    for (std::thread& other : others) other.join();
    for (const std::exception_ptr& failure : failures_)
      if (failure) std::rethrow_exception(failure);
    if (waiting() != 0) give_waiting(give);
  }

 private:
  struct Turn {
    size_t first, last;  // parts
    IdBuffer ids;
    std::atomic<bool> done{false};
  };

  // Returns the bytes of all texts; cuts long ones if they are `shared`.
  size_t plan(size_t turn_bytes, bool shared) {
    size_t all = 0, bytes = 0;
    const auto end_turn = [&] {
      turns_.emplace_back(turns_.empty() ? 0 : turns_.back().last, parts_.size());
      all += std::exchange(bytes, 0);
    };
    const auto add = [&](std::string_view part) {
      parts_.push_back(part);
      bytes += part.size();
      if (bytes >= turn_bytes) end_turn();
    };
    for (const std::string_view text : texts_) {
      firsts_.push_back(parts_.size());
      size_t begin = 0;
      for (size_t at = turn_bytes; shared && at + turn_bytes < text.size(); at += turn_bytes) {
        const size_t border = encoder_.find_border(text, specials_, at, at + std::min(turn_bytes, kReachBytes));
        if (border == npos) continue;
        add(text.substr(begin, border - begin));
        begin = border;
      }
      add(text.substr(begin));
    }
    firsts_.push_back(parts_.size());
    end_turn();
    ids_.resize(parts_.size());
    return all;
  }

  template <class After>
  void work(size_t thread, const After& after_turn) {
    try {
      Lease state = encoder_.lease();
      for (size_t turn; (turn = next_.fetch_add(1)) < turns_.size(); after_turn(state)) encode(turns_[turn], *state);
    } catch (...) {
      failures_[thread] = std::current_exception();
      next_ = turns_.size();
    }
  }

  void encode(Turn& turn, State& state) {
    std::vector<size_t> ends{0};
    for (size_t part = turn.first; part < turn.last; ++part) {
      encoder_.encode_text(parts_[part], specials_, true, state, turn.ids, nullptr);
      ends.push_back(turn.ids.size());
    }
    for (size_t n = 0; n + 1 < ends.size(); ++n)
      ids_[turn.first + n] = {turn.ids.data() + ends[n], ends[n + 1] - ends[n]};
    turn.done.store(true, std::memory_order_release);
  }

  // How many turns may be given away, without a gap.
  size_t waiting() {
    while (done_ < turns_.size() && turns_[done_].done.load(std::memory_order_acquire)) ++done_;
    return done_ - given_turns_;
  }

  void give_waiting(const std::function<void(std::span<const Parts>)>& give) {
    std::vector<Parts> texts;
    const size_t parts = turns_[done_ - 1].last;
    for (; given_ < texts_.size() && firsts_[given_ + 1] <= parts; ++given_)
      texts.push_back(std::span(ids_).subspan(firsts_[given_], firsts_[given_ + 1] - firsts_[given_]));
    given_turns_ = done_;
    if (!texts.empty()) give(texts);
  }

  Encoder& encoder_;
  const std::span<const std::string_view> texts_;
  const SpecialTokens* const specials_;
  std::vector<std::string_view> parts_;         // of all texts
  std::vector<std::span<const uint32_t>> ids_;  // of each part
  std::vector<size_t> firsts_;                  // the first part of each text, and behind the last
  std::deque<Turn> turns_;
  std::atomic<size_t> next_{0};  // the turn that no thread has taken
  std::vector<std::exception_ptr> failures_;
  size_t done_ = 0, given_turns_ = 0, given_ = 0;  // turns, turns, texts
};

void Encoder::encode_batch(std::span<const std::string_view> texts, const SpecialTokens* specials, size_t threads,
                           size_t turn_bytes, const std::function<void(std::span<const Parts>)>& give) {
  Batch(*this, texts, specials).run(threads, turn_bytes, give);
}

// No token that starts before a border reaches over it. So all that start there are found without the text behind, and
// the search for the next one starts at the border.
size_t Encoder::find_border(std::string_view text, const SpecialTokens* specials, size_t from, size_t to) const {
  const auto* bytes = reinterpret_cast<const uint8_t*>(text.data());
  const size_t longest = specials ? specials->longest() : 0;
  for (; automaton_ && from < to; ++from) {
    size_t border = automaton_->find_provable_cut(bytes, text.size(), from, to);
    if (longest != 0) border = std::min(border, specials->find(bytes, from, std::min(to + longest, text.size())).start);
    if (border >= to) break;
    bool inside = false;
    for (size_t at = border - std::min(border, longest); at < border; ++at)
      if (const auto match = specials->match_at(bytes, at, text.size())) inside |= match.end > border;
    if (!inside) return border;
    from = border;
  }
  return npos;
}

}  // namespace bpe
