// SPDX-License-Identifier: Apache-2.0
#include "example.h"

#include <errno.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>

namespace example {

bool Options::has(const std::string& word) const {
  return std::find(words.begin(), words.end(), word) != words.end();
}

const std::string& program_name() {
  static const std::string name = ::program_invocation_short_name;
  return name;
}

std::string program_folder() {
  char path[4096];
  const ssize_t n = ::readlink("/proc/self/exe", path, sizeof path);
  const std::string whole(path, n > 0 ? static_cast<std::size_t>(n) : 0);
  return whole.substr(0, whole.rfind('/') + 1);
}

void skip(const std::string& why) {
  std::printf("%s: skipped, %s\n", program_name().c_str(), why.c_str());
  std::exit(kSkipped);
}

void die(const std::string& why) {
  std::printf("%s: failed, %s\n", program_name().c_str(), why.c_str());
  std::fflush(stdout);
  std::exit(1);
}

Options parse(int argc, char** argv, std::uint32_t size, std::uint32_t repeat,
              std::initializer_list<const char*> words,
              std::initializer_list<std::pair<const char* const, std::uint32_t>> numbers) {
  Options o{size, repeat, {}, {}};
  for (const auto& [name, value] : numbers) o.numbers[name] = value;
  for (int i = 1; i < argc; ++i) {
    const std::string arg = argv[i];
    if ((arg == "--size" || arg == "--repeat" || o.numbers.count(arg) != 0) && i + 1 < argc) {
      char* rest = nullptr;
      const unsigned long value = std::strtoul(argv[++i], &rest, 10);
      if (*rest != '\0' || value == 0 || value > (1ul << 30)) {
        std::fprintf(stderr, "%s: %s takes a number from 1 to 2^30\n", program_name().c_str(), arg.c_str());
        std::exit(2);
      }
      (arg == "--size"     ? o.size
       : arg == "--repeat" ? o.repeat
                           : o.numbers[arg]) = static_cast<std::uint32_t>(value);
    } else if (std::find(words.begin(), words.end(), arg) != words.end()) {
      o.words.push_back(arg);
    } else {
      std::string usage = "usage: " + program_name() + " [--size N] [--repeat N]";
      for (const char* word : words) usage += std::string(" [") + word + "]";
      for (const auto& [name, value] : numbers) usage += " [" + std::string(name) + " N]";
      std::fprintf(stderr, "%s\n", usage.c_str());
      std::exit(2);
    }
  }
  return o;
}

std::uint32_t hash_word(std::uint32_t index, std::uint32_t stream) {
  std::uint32_t x = index * 0x9e3779b9u + stream * 0x85ebca6bu + 0x1234567u;
  x = (x ^ (x >> 16)) * 0x7feb352du;
  x = (x ^ (x >> 15)) * 0x846ca68bu;
  return x ^ (x >> 16);
}

float noise(std::uint32_t index, std::uint32_t stream, std::uint32_t steps) {
  const std::int64_t step = static_cast<std::int64_t>(hash_word(index, stream) % (2 * steps)) - steps;
  return static_cast<float>(step) / static_cast<float>(steps);
}

std::vector<float> noise_vector(std::size_t count, std::uint32_t stream, std::uint32_t steps) {
  std::vector<float> v(count);
  for (std::size_t i = 0; i < count; ++i) v[i] = noise(static_cast<std::uint32_t>(i), stream, steps);
  return v;
}

void Verdict::add(const void* bytes, std::size_t size) {
  // Eight bytes a step: some programs check many megabytes.
  const auto* p = static_cast<const unsigned char*>(bytes);
  for (; size >= 8; p += 8, size -= 8) {
    std::uint64_t word;
    std::memcpy(&word, p, 8);
    sum_ = (sum_ ^ word) * 0x100000001b3ull;
    sum_ ^= sum_ >> 29;
  }
  for (; size > 0; ++p, --size) sum_ = (sum_ ^ *p) * 0x100000001b3ull;
}

void Verdict::differ(const char* what, std::size_t i, double got, double expected) {
  char text[256];
  std::snprintf(text, sizeof text, "%s[%zu] is %.9g, expected %.9g", what, i, got, expected);
  wrong_ = text;
}

void Verdict::near(const char* what, double got, double expected, double tolerance) {
  if (wrong_.empty() && !(std::fabs(got - expected) <= tolerance)) differ(what, 0, got, expected);
}

int Verdict::finish(const std::string& more) const {
  if (!wrong_.empty()) {
    std::printf("%s: wrong, %s\n", program_name().c_str(), wrong_.c_str());
    return 1;
  }
  std::printf("%s: ok, checksum %016llx%s%s\n", program_name().c_str(), static_cast<unsigned long long>(sum_),
              more.empty() ? "" : ", ", more.c_str());
  return 0;
}

double seconds_now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

std::string text_of(const char* format, double value) {
  char text[128];
  std::snprintf(text, sizeof text, format, value);
  return text;
}

}  // namespace example
