// SPDX-License-Identifier: Apache-2.0
#include "shim/vulkan/spirv.h"

#include <algorithm>
#include <cstring>
#include <unordered_map>

namespace klab::shim {
namespace {

constexpr std::uint32_t kMagic = 0x07230203;
constexpr std::uint32_t kVersion14 = 0x00010400;
enum : std::uint32_t {
  kOpSource = 3,
  kOpString = 7,
  kOpExtInstImport = 11,
  kOpExtInst = 12,
  kOpEntryPoint = 15,
  kOpFunction = 54,
  kOpVariable = 59,
  kOpDecorate = 71
};
constexpr std::uint32_t kDecorationBinding = 33, kDecorationSet = 34;
constexpr std::uint32_t kDebugSource = 35;  // NonSemantic.Shader.DebugInfo.100

std::string text_at(const std::uint32_t* words, std::size_t count) {
  const char* p = reinterpret_cast<const char*>(words);
  return std::string(p, ::strnlen(p, count * 4));
}

std::string stem(const std::string& path) {
  const auto slash = path.find_last_of("/\\");
  std::string name = slash == std::string::npos ? path : path.substr(slash + 1);
  const auto dot = name.find('.');
  if (dot != std::string::npos && dot != 0) name.resize(dot);
  // A list of kernels must stay readable whatever a module claims.
  for (char& c : name)
    if (static_cast<unsigned char>(c) < 0x20) c = '?';
  if (name.size() > 200) name.resize(200);
  return name;
}

}  // namespace

SpirvFacts read_facts(const std::vector<std::uint32_t>& words, std::string_view entry) {
  SpirvFacts facts;
  if (words.size() < 5 || words[0] != kMagic) return facts;
  struct Place {
    bool has_set = false, has_binding = false;
    SlotName at;
  };
  std::unordered_map<std::uint32_t, Place> places;
  std::unordered_map<std::uint32_t, std::string> strings;
  std::vector<std::uint32_t> interface;
  bool found_entry = false;
  std::uint32_t source_file = 0;
  for (std::size_t i = 5; i < words.size();) {
    const std::uint32_t length = words[i] >> 16, op = words[i] & 0xffff;
    if (length == 0 || length > words.size() - i) break;
    const std::uint32_t* w = &words[i];
    if (op == kOpFunction) break;  // all that is looked for comes before
    if (op == kOpString && length >= 3) {
      strings[w[1]] = text_at(w + 2, length - 2);
    } else if (op == kOpSource && length >= 4 && source_file == 0) {
      source_file = w[3];
    } else if (op == kOpExtInst && length >= 6 && w[4] == kDebugSource && source_file == 0) {
      if (strings.count(w[5]) != 0) source_file = w[5];
    } else if (op == kOpEntryPoint && length >= 4 && !found_entry) {
      const std::string name = text_at(w + 3, length - 3);
      if (name == entry) {
        found_entry = true;
        const std::size_t first = 3 + name.size() / 4 + 1;
        for (std::size_t k = first; k < length; ++k) interface.push_back(w[k]);
      }
    } else if (op == kOpDecorate && length >= 4) {
      if (w[2] == kDecorationSet) places[w[1]].has_set = true, places[w[1]].at.set = w[3];
      if (w[2] == kDecorationBinding) places[w[1]].has_binding = true, places[w[1]].at.binding = w[3];
    }
    i += length;
  }
  // From 1.4 on an entry point lists every variable that it uses; before, the whole module counts.
  const bool listed = found_entry && words[1] >= kVersion14;
  for (const auto& [id, place] : places) {
    if (!place.has_binding && !place.has_set) continue;
    if (listed && std::find(interface.begin(), interface.end(), id) == interface.end()) continue;
    if (std::find(facts.declared.begin(), facts.declared.end(), place.at) == facts.declared.end())
      facts.declared.push_back(place.at);
  }
  std::sort(facts.declared.begin(), facts.declared.end(), [](const SlotName& a, const SlotName& b) {
    return a.set != b.set ? a.set < b.set : a.binding < b.binding;
  });
  if (const auto it = strings.find(source_file); it != strings.end()) facts.source_name = stem(it->second);
  return facts;
}

}  // namespace klab::shim
