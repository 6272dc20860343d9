// SPDX-License-Identifier: Apache-2.0
#include "compile/glsl/includer.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/hash.h"

namespace klab::compile {
namespace {

// "./a.glsl" -> "a.glsl"; an empty parent is the current folder.
std::string joined(const std::string& folder, std::string_view name) {
  return (fs::path(folder) / fs::path(name)).lexically_normal().string();
}

}  // namespace

IncludeFinder::IncludeFinder(std::vector<std::string> folders, const std::string& source)
    : folders_(std::move(folders)) {
  std::error_code ec;
  for (const std::string& folder : folders_)
    if (fs::path p = fs::weakly_canonical(folder.empty() ? "." : folder, ec); !ec)
      roots_.push_back(std::move(p));
  if (!source.empty()) {
    const fs::path parent = fs::path(source).parent_path();
    if (fs::path p = fs::weakly_canonical(parent.empty() ? "." : parent, ec); !ec)
      roots_.push_back(std::move(p));
  }
  chain_.push_back(source);
}

bool IncludeFinder::allowed(const fs::path& canonical) const {
  return std::any_of(roots_.begin(), roots_.end(), [&](const fs::path& root) {
    const auto at = std::mismatch(root.begin(), root.end(), canonical.begin(), canonical.end());
    return at.first == root.end() || (std::next(at.first) == root.end() && at.first->empty());
  });
}

Result<Included> IncludeFinder::find(std::string_view requested, std::string_view requesting, bool relative,
                                     std::size_t depth) {
  if (requested.empty() || requested.find('\0') != std::string_view::npos)
    return fail(ErrorCode::not_found, "an include without a file name");
  chain_.resize(std::min(chain_.size(), std::max<std::size_t>(depth, 1)));
  if (depth > kMaxIncludeDepth) {
    // The nearest earlier use of the including file closes the circle.
    std::string circle;
    for (std::size_t i = chain_.size() - 1; i-- > 0 && circle.empty();)
      if (chain_[i] == chain_.back())
        for (std::size_t k = i; k < chain_.size(); ++k) circle += (k == i ? "" : " includes ") + chain_[k];
    return fail(ErrorCode::compile_failed, circle.empty()
                                               ? fmt::format("includes nest deeper than {}", kMaxIncludeDepth)
                                               : fmt::format("include cycle: {}", circle));
  }
  if (++uses_ > kMaxIncludes)
    return fail(ErrorCode::cap_reached,
                fmt::format("more than {} includes in one compilation", kMaxIncludes));

  std::vector<std::string> places;
  if (fs::path(requested).is_absolute()) {
    places.emplace_back(requested);
  } else {
    if (relative && !requesting.empty())
      places.push_back(joined(fs::path(requesting).parent_path().string(), requested));
    for (const std::string& folder : folders_) places.push_back(joined(folder, requested));
  }
  std::string outside;
  for (const std::string& place : places) {
    std::error_code ec;
    const fs::path canonical = fs::weakly_canonical(place, ec);
    if (ec || !allowed(canonical)) {
      if (outside.empty()) outside = place;
      continue;
    }
    if (!fs::is_regular_file(canonical, ec)) {
      seen_.emplace(fs::absolute(place, ec).string(), "");
      continue;
    }
    auto content = read_file(canonical, kMaxIncludeBytes);
    if (!content) return fail(content.error());
    seen_.insert_or_assign(fs::absolute(place, ec).string(), to_string(hash_text(*content)));
    chain_.push_back(place);
    return Included{place, std::move(*content)};
  }
  if (!outside.empty())
    return fail(ErrorCode::compile_failed,
                fmt::format("{} is outside the source's folder and the include folders", outside),
                "name its folder with --include");
  std::string looked;
  for (const std::string& place : places) looked += (looked.empty() ? "" : ", ") + place;
  return fail(ErrorCode::not_found,
              fmt::format("{} not found{}{}", requested, looked.empty() ? "" : "; looked at ", looked),
              "name its folder with --include");
}

std::vector<Dependency> IncludeFinder::dependencies() const {
  std::vector<Dependency> list;
  for (const auto& [path, hash] : seen_) list.push_back({path, hash});
  return list;
}

}  // namespace klab::compile
