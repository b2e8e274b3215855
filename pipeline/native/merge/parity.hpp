// LanguageChoice: which language chooses the next merge, so that all are compressed alike.
//
// Idea (Foroutan et al., 'Parity-aware byte-pair encoding', 2025): the language whose texts still have the most tokens
// chooses, or with ratios the one that is compressed least in relation to its ratio. A window keeps a language from
// choosing again and again: one with more than its share of the last choices is passed over. It decides as
// ParityBpeTrainer of Hugging Face's tokenizers 0.23.3, except where that never returns.
#pragma once
#include <algorithm>
#include <cstdint>
#include <deque>
#include <limits>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

namespace bpe::merge {

struct ParityOptions {
  size_t languages = 0;
  bool dev = false;              // texts of other parts are measured, as many as there are languages
  std::vector<double> ratios;    // by language; none: tokens are compared
  uint64_t window = 0;           // last choices that are looked at; 0: none
  double alpha = 2;              // a language may have alpha / languages of them
  uint64_t global_merges = 0;    // that are chosen by the counts of all languages together, first
  std::vector<uint32_t> spent;   // what an interrupted training had: languages without a pair,
  std::vector<uint32_t> recent;  // and the last choices
};

class LanguageChoice {
 public:
  static constexpr uint32_t kNone = std::numeric_limits<uint32_t>::max();

  explicit LanguageChoice(const ParityOptions& options)
      : ratios_(options.ratios),
        window_(options.window),
        most_(options.alpha / static_cast<double>(options.languages)),
        bytes_(options.languages),
        tokens_(options.languages),
        spent_(options.languages, false),
        times_(options.languages, 0) {
    if (!ratios_.empty() && (options.dev || ratios_.size() != options.languages))
      throw std::invalid_argument("ratios need one for each language, and no texts that are measured");
    for (const auto language : options.spent) spent_.at(language) = true;
    for (const auto language : options.recent) note(language);
  }
  // What is measured of a language: its bytes, and its tokens now.
  void start(uint32_t language, uint64_t bytes, uint64_t tokens) {
    if (bytes == 0) throw std::invalid_argument("language " + std::to_string(language) + " has no pre-tokens");
    bytes_[language] = bytes;
    tokens_[language] = tokens;
  }
  void joined(uint32_t language, uint64_t tokens) { tokens_[language] -= std::min(tokens, tokens_[language] - 1); }

  // kNone when all languages are spent.
  uint32_t next() const {
    std::vector<bool> passed(spent_);
    uint32_t last = kNone;
    while (true) {
      uint32_t best = kNone;
      for (uint32_t language = 0; language < spent_.size(); ++language)
        if (!passed[language] && (best == kNone || value(language) > value(best))) best = language;
      if (best == kNone) break;
      if (window_ == 0 || static_cast<double>(times_[best]) / static_cast<double>(window_) <= most_) return best;
      passed[best] = true;
      last = best;
    }
    const bool any_spent = std::find(spent_.begin(), spent_.end(), true) != spent_.end();
    return last != kNone && any_spent ? 0 : last;
  }
  // The language has chosen.
  void note(uint32_t language) {
    if (window_ == 0) return;
    recent_.push_back(language);
    ++times_.at(language);
    if (recent_.size() <= window_) return;
    --times_[recent_.front()];
    recent_.pop_front();
  }
  // The language had chosen, and has no pair to merge.
  void spend(uint32_t language) {
    const bool again = window_ != 0 && spent_[language];  // then it is the answer until another leaves the last choices
    spent_[language] = true;
    bool another = false;
    do {
      another = recent_.size() == window_ && window_ != 0 && recent_.front() != language;
      note(language);
    } while (again && !another);
  }
  std::vector<uint32_t> spent() const {
    std::vector<uint32_t> found;
    for (uint32_t language = 0; language < spent_.size(); ++language)
      if (spent_[language]) found.push_back(language);
    return found;
  }
  std::vector<uint32_t> recent() const { return {recent_.begin(), recent_.end()}; }
  uint32_t languages() const { return static_cast<uint32_t>(tokens_.size()); }
  uint64_t tokens(uint32_t language) const { return tokens_[language]; }
  uint64_t bytes(uint32_t language) const { return bytes_[language]; }

 private:
  double value(uint32_t language) const {
    const auto tokens = static_cast<double>(tokens_[language]);
    return ratios_.empty() ? tokens : -(static_cast<double>(bytes_[language]) / tokens / ratios_[language]);
  }
  std::vector<double> ratios_;
  uint64_t window_;
  double most_;
  std::vector<uint64_t> bytes_, tokens_;  // by language
  std::vector<bool> spent_;
  std::vector<uint64_t> times_;  // among the last choices
  std::deque<uint32_t> recent_;
};

}  // namespace bpe::merge
