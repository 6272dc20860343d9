// SPDX-License-Identifier: Apache-2.0
#include "variant/source_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include <fmt/format.h>

#include "base/hash.h"
#include "variant/variant.h"

namespace klab::variant {
namespace {

constexpr std::uint64_t kMaxSource = 64u << 20;
constexpr std::string_view kMark = "\xef\xbb\xbf";

std::string with_lf(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (std::size_t i = 0; i < text.size(); ++i)
    if (text[i] != '\r' || i + 1 == text.size() || text[i + 1] != '\n') out += text[i];
  return out;
}
std::string with_crlf(std::string_view text) {
  std::string out;
  out.reserve(text.size() + text.size() / 32);
  for (char c : text) {
    if (c == '\n') out += '\r';
    out += c;
  }
  return out;
}

}  // namespace

std::string in_style_of(std::string_view before, std::string_view text) {
  std::size_t crlf = 0, lf = 0;
  for (std::size_t i = 0; i < before.size(); ++i)
    if (before[i] == '\n') ++(i > 0 && before[i - 1] == '\r' ? crlf : lf);
  std::string out(text);
  const bool text_has_cr = text.find("\r\n") != std::string_view::npos;
  if (crlf > 0 && lf > 0) {
    // Mixed: a text that was made from the file has the file's own endings, line by line.
    if (!text_has_cr && crlf > lf) out = with_crlf(text);
  } else if (crlf > 0) {
    out = with_crlf(with_lf(text));
  } else if (lf > 0 && text_has_cr) {
    out = with_lf(text);
  }
  if (before.starts_with(kMark) && !out.starts_with(kMark))
    out.insert(0, kMark);
  else if (!before.starts_with(kMark) && out.starts_with(kMark))
    out.erase(0, kMark.size());
  return out;
}

Status check_writable(const fs::path& resolved) {
  const auto refuse = [&](const std::string& why, std::string hint) {
    return fail(ErrorCode::unsupported, fmt::format("{} {}", resolved.string(), why), std::move(hint));
  };
  struct stat st {};
  if (::lstat(resolved.c_str(), &st) != 0) return fail_errno(errno, resolved.string());
  if (!S_ISREG(st.st_mode)) return refuse("is not a regular file", "name the source file itself");
  if (st.st_nlink > 1)
    return refuse(fmt::format("has {} hard links, and a save would part them", st.st_nlink),
                  "copy it to a file of its own first");
  if ((st.st_mode & 0222) == 0) return refuse("is read-only", "chmod u+w, or check it out for writing");
  const Fd probe(::open(resolved.c_str(), O_WRONLY | O_NOFOLLOW | O_CLOEXEC));
  if (!probe)
    return refuse(fmt::format("cannot be written: {}", std::strerror(errno)),
                  "check its permissions and filesystem");
  const fs::path folder = resolved.parent_path();
  if (::access(folder.c_str(), W_OK | X_OK) != 0)
    return refuse(fmt::format("cannot be replaced, its folder cannot be written: {}", std::strerror(errno)),
                  "check the folder's permissions");
  return {};
}

Result<SavePlan> plan_save(const fs::path& file, std::string_view text, const std::string& read_hash) {
  std::error_code ec;
  SavePlan plan;
  plan.file = fs::canonical(file, ec);
  if (ec) return fail_errno(ec.value(), file.string());
  KLAB_TRY_VOID(check_writable(plan.file));
  KLAB_TRY(plan.before, read_file(plan.file, kMaxSource));
  plan.before_hash = to_string(hash_text(plan.before));
  if (!read_hash.empty() && read_hash != plan.before_hash)
    return fail(ErrorCode::source_changed,
                fmt::format("{} was changed since the variant was made from it", file.string()),
                "make the variant again from the file as it is now");
  plan.after = in_style_of(plan.before, text);
  plan.diff = unified_diff(plan.before, plan.after, file.string());
  return plan;
}

void to_json(Json& j, const Saved& v) {
  j = Json{{"id", v.id},
           {"file", v.file},
           {"backup", v.backup},
           {"before_hash", v.before_hash},
           {"after_hash", v.after_hash},
           {"at", v.at},
           {"undone", v.undone}};
  if (!v.undo_of.empty()) j["undo_of"] = v.undo_of;
}
void from_json(const Json& j, Saved& v) {
  read_required(j, "id", v.id);
  read_required(j, "file", v.file);
  read_optional(j, "backup", v.backup);
  read_required(j, "before_hash", v.before_hash);
  read_required(j, "after_hash", v.after_hash);
  read_optional(j, "at", v.at);
  read_optional(j, "undo_of", v.undo_of);
}

}  // namespace klab::variant
