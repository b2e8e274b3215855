// StoredWords: the words of a shard that are on disk, because no merge of the present phase can change them.
//
// Idea: words are only ever read and written in sequence. A pass reads one scratch file and writes another, which takes
// its place; words that leave memory between passes are appended. Both files lose their names as soon as they are open:
// they are gone when the process is, however it ends.
// Format: blocks of about kBlockSymbols, each a header, the runs of equal count and the words as in a Shard. A word is
// never divided. Errors of the disk are std::system_error, with the file's name.
#pragma once
#include <cerrno>
#include <cstdio>
#include <system_error>

#include <unistd.h>

#include "merge/words.hpp"

namespace bpe::merge {

inline constexpr size_t kBlockSymbols = size_t{1} << 15;

// Words in memory that are to be written together; without the boundary in front.
template <class S>
struct WordBlock {
  std::vector<S> symbols;
  std::vector<Run> runs;

  void add(const S* word, size_t size, uint64_t weight) {
    if (runs.empty() || runs.back().weight != weight) runs.push_back({static_cast<Position>(symbols.size()), weight});
    symbols.insert(symbols.end(), word, word + size);
    symbols.push_back(static_cast<S>(kBoundary));
  }
  bool full() const { return symbols.size() >= kBlockSymbols; }
  void clear() {
    symbols.clear();
    runs.clear();
    if (symbols.capacity() > 8 * kBlockSymbols) symbols.shrink_to_fit();
  }
  // Calls use(word, size, weight) for each word.
  template <class Use>
  void each_word(Use&& use) {
    filter([&](S* word, size_t size, uint64_t weight) {
      use(word, size, weight);
      return size;
    });
  }
  // Keeps of each word its first use(word, size, weight) symbols, and nothing of those for which that is 0.
  template <class Use>
  void filter(Use&& use) {
    S* const words = symbols.data();
    size_t out = 0, at = 0, n_runs = 0;
    for (size_t r = 0; r < runs.size(); ++r) {
      const size_t end = r + 1 < runs.size() ? runs[r + 1].begin : symbols.size();
      const size_t run_out = out;
      const auto weight = runs[r].weight;
      while (at < end) {
        const size_t begin = at;
        while (words[at] != kBoundary) ++at;
        const size_t kept = use(words + begin, at - begin, weight);
        ++at;
        if (kept == 0) continue;
        if (out != begin || kept != at - begin - 1) {
          std::copy(words + begin, words + begin + kept, words + out);
          words[out + kept] = static_cast<S>(kBoundary);
        }
        out += kept + 1;
      }
      if (out != run_out) runs[n_runs++] = {static_cast<Position>(run_out), weight};
    }
    runs.resize(n_runs);
    symbols.resize(out);
  }
  // Adds all words of another block, which is empty then.
  void take(WordBlock& other) {
    for (const auto& run : other.runs)
      if (runs.empty() || runs.back().weight != run.weight)
        runs.push_back({static_cast<Position>(symbols.size() + run.begin), run.weight});
    symbols.insert(symbols.end(), other.symbols.begin(), other.symbols.end());
    other.clear();
  }
};

class ScratchFile {
 public:
  explicit ScratchFile(const std::string& path) : path_(path), file_(std::fopen(path.c_str(), "w+b")) {
    if (file_ == nullptr) fail();
    (void)::unlink(path.c_str());
  }
  void write(const void* data, size_t bytes) {
    if (bytes != 0 && std::fwrite(data, 1, bytes, file_.get()) != bytes) fail();
    size_ += bytes;
  }
  void read(void* data, size_t bytes) {
    if (bytes != 0 && std::fread(data, 1, bytes, file_.get()) != bytes) fail();
  }
  void seek(uint64_t offset) {
    if (::fseeko(file_.get(), static_cast<off_t>(offset), SEEK_SET) != 0) fail();
  }
  void empty() {
    seek(0);
    if (::ftruncate(::fileno(file_.get()), 0) != 0) fail();
    size_ = 0;
  }
  uint64_t size() const { return size_; }

 private:
  struct Close {
    void operator()(std::FILE* file) const { (void)std::fclose(file); }
  };
  [[noreturn]] void fail() const { throw std::system_error(errno != 0 ? errno : EIO, std::generic_category(), path_); }
  std::string path_;
  std::unique_ptr<std::FILE, Close> file_;
  uint64_t size_ = 0;
};

class StoredWords {
 public:
  explicit StoredWords(const std::string& path) : now_(path + ".a.part"), next_(path + ".b.part") {}

  uint64_t symbols() const { return symbols_; }
  // Adds a block to the words that there are.
  template <class S>
  void append(WordBlock<S>& block) {
    now_.file.seek(now_.file.size());
    symbols_ += write(now_, block);
  }
  // A pass: all words are read, block by block, and what is kept meanwhile is stored afterwards.
  void begin_pass() {
    next_.clear();
    kept_ = at_ = 0;
    now_.file.seek(0);
  }
  template <class S>
  bool read_next(WordBlock<S>& block) {
    if (at_ == now_.blocks.size()) return false;
    ++at_;
    read(block);
    return true;
  }
  template <class S>
  void keep(WordBlock<S>& block) {
    kept_ += write(next_, block);
  }
  // Keeps a block at once or, if it is small, together with what is in `gathered`.
  template <class S>
  void keep(WordBlock<S>& block, WordBlock<S>& gathered) {
    if (2 * block.symbols.size() >= kBlockSymbols) return keep(block);
    gathered.take(block);
    if (gathered.full()) keep(gathered);
  }
  void end_pass() {
    std::swap(now_, next_);
    next_.clear();
    symbols_ = kept_;
  }
  // Reads about that many blocks, spread evenly over all, or all where `blocks` is 0; nothing changes.
  template <class S, class Use>
  void look(size_t blocks, Use&& use) {
    WordBlock<S> block;
    const size_t step = blocks == 0 ? 1 : std::max<size_t>(1, now_.blocks.size() / blocks);
    for (size_t i = step / 2; i < now_.blocks.size(); i += step) {
      now_.file.seek(now_.blocks[i]);
      read(block);
      use(block);
    }
  }

 private:
  struct Header {
    uint64_t symbols;
    uint32_t runs, width;
  };
  struct Part {
    explicit Part(const std::string& path) : file(path) {}
    void clear() {
      file.empty();
      blocks.clear();
    }
    ScratchFile file;
    std::vector<uint64_t> blocks;  // where each begins
  };
  template <class S>
  static uint64_t write(Part& part, WordBlock<S>& block) {
    const uint64_t symbols = block.symbols.size();
    if (symbols == 0) return 0;
    const Header header{symbols, static_cast<uint32_t>(block.runs.size()), sizeof(S)};
    part.blocks.push_back(part.file.size());
    part.file.write(&header, sizeof header);
    part.file.write(block.runs.data(), block.runs.size() * sizeof(Run));
    part.file.write(block.symbols.data(), symbols * sizeof(S));
    block.clear();
    return symbols;
  }
  template <class S>
  void read(WordBlock<S>& block) {
    Header header;
    now_.file.read(&header, sizeof header);
    block.clear();
    block.runs.resize(header.runs);
    block.symbols.resize(header.symbols);
    now_.file.read(block.runs.data(), header.runs * sizeof(Run));
    if (header.width == sizeof(S)) {
      now_.file.read(block.symbols.data(), header.symbols * sizeof(S));
      return;
    }
    std::vector<uint16_t> narrow(header.symbols);  // symbols only ever become wider
    now_.file.read(narrow.data(), header.symbols * sizeof(uint16_t));
    std::copy(narrow.begin(), narrow.end(), block.symbols.begin());
  }

  Part now_, next_;
  uint64_t symbols_ = 0, kept_ = 0;
  size_t at_ = 0;  // of the pass: the next block
};

}  // namespace bpe::merge
