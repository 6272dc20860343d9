// SPDX-License-Identifier: Apache-2.0
// How long one edited variant takes in a laboratory that is warm: build, replay of 20 isolated iterations with the whole
// validation, answer received. bench_warm_variant BUNDLE SOURCE [COUNT]: the source is edited (a comment) each time, so
// that nothing comes from the build cache. Prints one JSON object; the first evaluation is the cold one.
#include <chrono>
#include <cstdio>
#include <cstdlib>

#include <fmt/format.h>

#include "base/files.h"
#include "base/ids.h"
#include "measure/summary.h"
#include "ops/build.h"
#include "ops/run.h"

namespace {
double ms_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
}
}  // namespace

int main(int argc, char** argv) {
  using namespace klab;
  if (argc < 3) {
    std::fputs("usage: bench_warm_variant BUNDLE SOURCE [COUNT]\n", stderr);
    return 2;
  }
  const fs::path bundle = argv[1], source = argv[2];
  const int count = argc > 3 ? std::atoi(argv[3]) : 10;
  const auto text = read_file(source);
  if (!text) {
    fmt::print(stderr, "{}\n", text.error().what);
    return 1;
  }
  // Beside the source, so that its relative includes are found.
  const fs::path edited = source.parent_path() / (".bench-" + new_id(6) + source.extension().string());
  ops::Lab lab;
  std::vector<double> build, replay, whole;
  Json last;
  for (int i = 0; i < count + 1; ++i) {
    if (auto wrote = write_file_atomic(edited, *text + fmt::format("\n// edit {} {}\n", i, new_id())); !wrote) {
      fmt::print(stderr, "{}\n", wrote.error().what);
      return 1;
    }
    const auto start = std::chrono::steady_clock::now();
    const auto built = ops::build_variant(lab, {.bundle = bundle, .source = edited, .name = "warm"});
    const double built_ms = ms_since(start);
    if (!built) {
      fmt::print(stderr, "build: {}\n", built.error().what);
      fs::remove(edited);
      return 1;
    }
    const auto done = ops::replay_dispatch(lab, {.bundle = bundle, .variant = built->variant.id});
    if (!done) {
      fmt::print(stderr, "replay: {}\n", done.error().what);
      fs::remove(edited);
      return 1;
    }
    build.push_back(built_ms), whole.push_back(ms_since(start)), replay.push_back(whole.back() - built_ms);
    last = Json{{"correctness", done->variant().validation.correctness},
                {"reason", done->variant().validation.reason},
                {"median_ns", done->summary.median_ns},
                {"worker_ms", done->answer.wall_ms},
                {"written_bytes", done->variant().written_bytes},
                {"captured_bytes", done->answer.captured_bytes}};
  }
  fs::remove(edited);
  const auto warm = [](const std::vector<double>& v) {
    return measure::summarise(std::vector<double>(v.begin() + 1, v.end())).median_ns;  // here in ms
  };
  Json out{{"first_ms", whole[0]},  {"warm_ms", warm(whole)}, {"warm_build_ms", warm(build)},
           {"warm_replay_ms", warm(replay)}, {"count", count}, {"last", last}};
  std::puts(out.dump().c_str());
}
