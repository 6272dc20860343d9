// SPDX-License-Identifier: Apache-2.0
// The dull half that the CUDA and HIP example programs share: options, input values, judging the result.
// Not here: any GPU (cuda/common.h, hip/common.h). A missing device or feature ends a program with 77.
#pragma once
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <initializer_list>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace example {

inline constexpr int kSkipped = 77;  // exit code: this machine lacks something that the program needs

/// `--size N`, `--repeat N`, words of the program's own such as `--hold`, and numbers such as `--hold-gib N`.
struct Options {
  std::uint32_t size = 0, repeat = 0;
  std::vector<std::string> words;
  std::map<std::string, std::uint32_t> numbers;
  bool has(const std::string& word) const;
};
Options parse(int argc, char** argv, std::uint32_t size, std::uint32_t repeat,
              std::initializer_list<const char*> words = {},
              std::initializer_list<std::pair<const char* const, std::uint32_t>> numbers = {});

const std::string& program_name();
/// The folder that the program lies in, with a slash at its end.
std::string program_folder();
/// Prints "NAME: skipped, ..." and exits with 77.
[[noreturn]] void skip(const std::string& why);
/// Prints "NAME: failed, ..." and exits with 1.
[[noreturn]] void die(const std::string& why);

inline unsigned blocks(std::size_t items, unsigned per_block) {
  return static_cast<unsigned>((items + per_block - 1) / per_block);
}

/// Deterministic input in [-1, 1): multiples of 1/steps, so that a few products and sums of them are exact,
/// whatever the order and with or without fused multiply-add.
float noise(std::uint32_t index, std::uint32_t stream = 0, std::uint32_t steps = 1024);
std::vector<float> noise_vector(std::size_t count, std::uint32_t stream = 0, std::uint32_t steps = 1024);
/// The integer that noise() is made from; the same function as hash_word() of the kernels.
std::uint32_t hash_word(std::uint32_t index, std::uint32_t stream = 0);

/// Compares results with what the CPU computed, and says so in one line.
class Verdict {
 public:
  template <class T>
  void compare(const char* what, const std::vector<T>& got, const std::vector<T>& expected) {
    add(got.data(), got.size() * sizeof(T));
    for (std::size_t i = 0; i < expected.size() && wrong_.empty(); ++i)
      if (got.size() != expected.size() || !(got[i] == expected[i]))
        differ(what, i, static_cast<double>(i < got.size() ? got[i] : T{}), static_cast<double>(expected[i]));
  }
  /// For a value whose last bits depend on the order of threads: it is no part of the checksum.
  void near(const char* what, double got, double expected, double tolerance);
  /// Bytes that the checksum covers besides.
  void add(const void* bytes, std::size_t size);
  /// Prints "NAME: ok, checksum ...[, more]" or "NAME: wrong, y[3] is 1, expected 2"; returns the exit code.
  int finish(const std::string& more = "") const;

 private:
  void differ(const char* what, std::size_t i, double got, double expected);
  std::uint64_t sum_ = 0xcbf29ce484222325ull;
  std::string wrong_;
};

/// Host time, for programs that print some.
double seconds_now();
std::string text_of(const char* format, double value);

}  // namespace example
