// SPDX-License-Identifier: Apache-2.0
// For the tests of this folder: real programs on the real driver, captured into a temporary folder.
#pragma once
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <numeric>

#include "base/ids.h"
#include "bundle/reader.h"
#include "capture/capture.h"

namespace klab::capture {

struct Folder {
  fs::path path = fs::temp_directory_path() / ("klab-capture-test-" + new_id());
  Folder() { fs::create_directories(path); }
  ~Folder() {
    std::error_code ec;
    fs::remove_all(path, ec);
  }
  bool empty() const { return fs::directory_iterator(path) == fs::directory_iterator(); }
};

inline Target program(const std::string& name, std::vector<std::string> arguments = {}) {
  Target t;
  t.argv = {name == "probe" ? std::string(KLAB_BUILD_DIR "/klab_shim_probe")
                            : KLAB_BUILD_DIR "/examples/vulkan/" + name};
  t.argv.insert(t.argv.end(), arguments.begin(), arguments.end());
  t.quiet = true;
  t.limit = std::chrono::seconds(120);
  return t;
}
inline Target probe(std::vector<std::string> arguments) { return program("probe", std::move(arguments)); }

inline CaptureRequest request(const Folder& folder, Target target, std::string kernel = ".",
                              std::vector<std::uint64_t> nth = {1}) {
  CaptureRequest r;
  r.target = std::move(target);
  r.kernel = std::move(kernel);
  r.nth = std::move(nth);
  r.bundle = folder.path / "out.klab";
  return r;
}

inline std::string text_of(const Error& e) {
  return std::string(to_string(e.code)) + ": " + e.what + " | " + e.hint;
}

/// All of a list as values.
template <class T>
std::vector<T> values(const bundle::Reader& reader, std::uint32_t list, std::uint64_t offset = 0,
                      std::size_t count = ~std::size_t{0}) {
  const std::uint64_t size = reader.list_size(list);
  std::vector<T> out(std::min<std::size_t>(count, (size - offset) / sizeof(T)));
  EXPECT_TRUE(reader.read(list, offset, std::as_writable_bytes(std::span(out))));
  return out;
}

/// What the probe's step.comp computes from what it was bound to: the capture's own pre-state gives its
/// post-state.
inline void expect_step(const bundle::Reader& reader, const bundle::Dispatch& d) {
  ASSERT_EQ(d.bindings.size(), 2u);
  const auto& data = d.bindings[0];
  const auto& add = d.bindings[1];
  ASSERT_EQ(d.push_constants.size(), 12u);
  std::uint32_t push[3];
  std::memcpy(push, d.push_constants.data(), sizeof push);
  EXPECT_EQ(push[0], 1000u);
  auto expected = values<std::uint32_t>(reader, d.regions[data.region].pre, data.offset, data.range / 4);
  const auto addends = values<std::uint32_t>(reader, d.regions[add.region].pre, add.offset, 4);
  for (std::uint32_t i = 0; i < push[0]; ++i) expected[i] = expected[i] * 3u + addends[i % 4] + push[2] + i;
  EXPECT_EQ(values<std::uint32_t>(reader, d.regions[data.region].post, data.offset, data.range / 4),
            expected);
}

/// The probe's data after `adds` steps from its start.
inline std::vector<std::uint32_t> stepped(const std::vector<std::pair<int, std::uint32_t>>& adds) {
  const std::uint32_t add[2][4] = {{1, 2, 3, 4}, {100, 200, 300, 400}};
  std::vector<std::uint32_t> data(1000);
  for (std::uint32_t i = 0; i < 1000; ++i) data[i] = i * 7 + 1;
  for (const auto& [which, push] : adds)
    for (std::uint32_t i = 0; i < 1000; ++i) data[i] = data[i] * 3u + add[which][i % 4] + push + i;
  return data;
}

}  // namespace klab::capture
