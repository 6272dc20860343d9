// SPDX-License-Identifier: Apache-2.0
#include "ops/floors.h"

#include <ctime>

#include "base/files.h"
#include "base/ids.h"

namespace klab::ops {
namespace {

constexpr std::time_t kValid = 7 * 24 * 3600;
constexpr std::size_t kMostBytes = 4u << 20;

fs::path file() { return klab_cache() / "floors.json"; }

Json entries() {
  const auto text = read_file(file(), kMostBytes);
  if (!text) return Json::object();
  auto json = parse_json(*text, "floors.json", kMostBytes);
  return json && json->is_object() ? std::move(*json) : Json::object();
}

}  // namespace

std::map<std::string, replay::Comparing::Floor> known_floors() {
  std::map<std::string, replay::Comparing::Floor> known;
  const std::time_t now = std::time(nullptr);
  const Json all = entries();
  for (const auto& [name, entry] : all.items()) {
    auto floor = decode_json<replay::Comparing::Floor>(entry, name);
    if (!floor || !entry.is_object() || entry.value("klab", "") != KLAB_VERSION) continue;
    const auto made = entry.value("made", std::int64_t{0});
    if (made > now || now - made > kValid || !(floor->value >= 0)) continue;
    known[name] = std::move(*floor);
  }
  return known;
}

Status keep_floor(const Json& comparison) {
  if (!comparison.is_object() || !comparison.contains("floor")) return {};
  const Json& floor = comparison["floor"];
  if (!floor.value("measured", false) || !floor.value("keep", false)) return {};
  Json all = entries();
  all[floor.value("key", "")] = {{"value", floor.at("value")},
                                 {"budget_s", floor.at("budget_s")},
                                 {"at", utc_now()},
                                 {"made", static_cast<std::int64_t>(std::time(nullptr))},
                                 {"klab", KLAB_VERSION}};
  KLAB_TRY_VOID(make_folders(klab_cache()));
  return write_file_atomic(file(), all.dump(1), 0600);
}

}  // namespace klab::ops
