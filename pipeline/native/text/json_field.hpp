// Reads one field of each record of JSON Lines: which lines are JSON, and what text they have, is as Python's json says.
//
// Idea: one pass over the bytes. Every value is checked, but only keys on the way to the field and the field itself are
// decoded, straight into the column of texts. Of keys that come twice, the last counts. Nesting has no limit.
// Texts are the file's bytes: invalid UTF-8 stays, and an escaped surrogate without its other half becomes the byte FF.
#pragma once
#include "text/base.hpp"

namespace bpe {

// The kinds of records without a text: no object in JSON, without the field (or with null in it), no string in it.
enum class NoText { not_json, without_field, not_text };

struct JsonTexts {
  static constexpr size_t kExamples = 8;
  struct Skipped {
    uint64_t count = 0;
    std::vector<uint64_t> starts;  // of the lines of the first few, in bytes
  };
  std::vector<int64_t> offsets{0};  // row i is data[offsets[i]:offsets[i + 1]]; blank lines are no rows
  std::unique_ptr<uint8_t[]> data;
  std::array<Skipped, 3> skipped;  // by NoText; their rows are empty
};

// Of whole lines; `path` has the keys that lead to the field, at least one.
JsonTexts json_texts(const uint8_t* lines, size_t size, const std::vector<std::string>& path);

}  // namespace bpe
