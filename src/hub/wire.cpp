// SPDX-License-Identifier: Apache-2.0
#include "hub/wire.h"

#include <sys/stat.h>
#include <unistd.h>

#include <fmt/format.h>

#include "base/environment.h"
#include "base/hash.h"

namespace klab::hub {

Result<fs::path> socket_path() {
  fs::path folder;
  const char* runtime = environment_value("XDG_RUNTIME_DIR");
  struct stat st {};
  // A socket's path may be 107 bytes long.
  if (runtime != nullptr && *runtime == '/' && std::string_view(runtime).size() < 70 &&
      ::stat(runtime, &st) == 0 && S_ISDIR(st.st_mode) && st.st_uid == ::getuid())
    folder = fs::path(runtime) / "klab";
  else
    folder = fmt::format("/tmp/klab-{}", ::getuid());
  if (::mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST)
    return fail_errno(errno, "making " + folder.string());
  if (::lstat(folder.c_str(), &st) != 0) return fail_errno(errno, folder.string());
  if (!S_ISDIR(st.st_mode) || st.st_uid != ::getuid() || (st.st_mode & 077) != 0)
    return fail(ErrorCode::environment, folder.string() + " is not a folder of ours alone",
                "remove it, or set XDG_RUNTIME_DIR");
  std::error_code ec;
  const fs::path home = fs::weakly_canonical(klab_home(), ec);
  return folder / ("hub-" + to_string(hash_text((ec ? klab_home() : home).string())).substr(0, 16) + ".sock");
}

Json identity() {
  struct stat st {};
  std::string build;
  if (::stat((program_folder() / "klab").c_str(), &st) == 0)
    build = fmt::format("{}-{}-{}.{}", st.st_ino, st.st_size, st.st_mtim.tv_sec, st.st_mtim.tv_nsec);
  return {{"protocol", kHubProtocol}, {"version", KLAB_VERSION}, {"build", build}};
}

}  // namespace klab::hub
