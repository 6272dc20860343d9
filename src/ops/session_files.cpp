// SPDX-License-Identifier: Apache-2.0
#include "ops/session_files.h"

#include <charconv>

#include <fmt/format.h>

#include "bundle/writer.h"

namespace klab::ops {
namespace {

bool is_capture(const fs::path& path) {
  const std::string name = path.filename().string();
  return name.starts_with("capture-") && name.ends_with(".klab");
}

std::uint64_t size_of(const fs::path& folder) {
  std::uint64_t sum = 0;
  std::error_code ec;
  for (fs::recursive_directory_iterator it(folder, ec), end; !ec && it != end; it.increment(ec))
    if (std::error_code one; it->is_regular_file(one)) sum += it->file_size(one);
  return sum;
}

}  // namespace

fs::path session_folder(const fs::path& home, const std::string& id) { return home / "sessions" / id; }

fs::path next_capture(const fs::path& folder) {
  std::error_code ec;
  for (int n = 1;; ++n)
    if (fs::path path = folder / fmt::format("capture-{}.klab", n); !fs::exists(fs::symlink_status(path, ec))) return path;
}

FreedFiles delete_inputs(const fs::path& folder) {
  FreedFiles freed;
  std::error_code ec;
  std::vector<fs::path> doomed;
  for (fs::directory_iterator it(folder, ec), end; !ec && it != end; it.increment(ec)) {
    const std::string name = it->path().filename().string();
    if (is_capture(it->path()) || name == "dumps")
      doomed.push_back(it->path());
    else if (name[0] != '.')
      freed.kept.push_back(name);
  }
  for (const fs::path& path : doomed) {
    freed.bytes += size_of(path);
    fs::remove_all(path, ec);
  }
  bundle::sweep_partial(folder);
  std::sort(freed.kept.begin(), freed.kept.end());
  return freed;
}

Status recover_sessions(session::Store& store, const fs::path& home) {
  session::Sessions sessions = store.sessions();
  KLAB_TRY(const int lost, sessions.recover());
  if (lost > 0) {
    std::error_code ec;
    for (fs::directory_iterator it(home / "sessions", ec), end; !ec && it != end; it.increment(ec))
      bundle::sweep_partial(it->path());
  }
  KLAB_TRY(const auto unfinished, sessions.closed_with_inputs());
  for (session::SessionRow row : unfinished) {
    delete_inputs(session_folder(home, row.id));
    row.owns_bundle = false;
    KLAB_TRY_VOID(sessions.update(row));
  }
  return {};
}

}  // namespace klab::ops
