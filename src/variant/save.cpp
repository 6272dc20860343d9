// SPDX-License-Identifier: Apache-2.0
// Writes a winner back and takes it back. At any kill the source is the old or the new file, and its backup
// is whole.
//
// backups/ID.partial  a backup being written; the source is untouched
// backups/ID.pending  a whole backup; the source is about to be replaced, or just was
// backups/ID          a finished save
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <set>
#include <thread>

#include <fmt/format.h>

#include "base/hash.h"
#include "base/ids.h"
#include "variant/source_file.h"
#include "variant/variant.h"

namespace klab::variant {
namespace {

constexpr std::uint64_t kMaxBackup = 256u << 20;
constexpr char kOriginal[] = "original", kRecord[] = "save.json";

fs::path backups() { return klab_home() / "backups"; }

bool is_id(std::string_view id) {
  return !id.empty() && id.size() <= 32 && std::all_of(id.begin(), id.end(), [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z');
  });
}

fs::path temporary_of(const fs::path& file, const std::string& id) {
  return file.parent_path() / fmt::format(".{}.klab-{}.tmp", file.filename().string(), id);
}

// Two savers take turns. The kernel drops the lock of one that died.
Result<Fd> lock() {
  KLAB_TRY_VOID(make_folders(backups()));
  Fd fd(::open((backups() / ".lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  if (!fd) return fail_errno(errno, (backups() / ".lock").string());
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  while (::flock(fd.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK && errno != EINTR) return fail_errno(errno, "flock");
    if (std::chrono::steady_clock::now() > deadline)
      return fail(ErrorCode::io_failed, "another klab has been saving for 10 s",
                  "wait for it, or end it, and try again");
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return fd;
}

Result<Saved> read_record(const fs::path& folder) {
  KLAB_TRY(const std::string text, read_file(folder / kRecord, 1u << 20));
  KLAB_TRY(const Json json, parse_json(text, (folder / kRecord).string()));
  return decode_json<Saved>(json, (folder / kRecord).string());
}

std::string hash_of_file(const fs::path& file) {
  const auto text = read_file(file, kMaxBackup);
  return text ? to_string(hash_text(*text)) : std::string();
}

// Finishes or takes back what a killed saver left. The lock is held.
void sweep() {
  std::error_code ec;
  std::vector<fs::path> left;
  for (fs::directory_iterator it(backups(), ec), end; !ec && it != end; it.increment(ec))
    if (it->path().extension() == ".partial" || it->path().extension() == ".pending")
      left.push_back(it->path());
  for (const fs::path& folder : left) {
    const std::string id = folder.stem().string();
    const auto record =
        folder.extension() == ".pending" ? read_record(folder) : fail(ErrorCode::not_found, "");
    if (!record) {
      if (folder.extension() == ".partial") fs::remove_all(folder, ec);
      continue;  // a pending record that does not read: kept for a person to look at
    }
    fs::remove(temporary_of(record->file, id), ec);
    // Still the old file: the save did not happen. Anything else, also a later edit: it did, so the backup
    // stays.
    if (hash_of_file(record->file) == record->before_hash && record->before_hash != record->after_hash)
      fs::remove_all(folder, ec);
    else
      fs::rename(folder, backups() / id, ec);
  }
  if (!left.empty()) (void)sync_folder(backups());
}

// Access lists, labels and the user's own attributes, as far as the filesystem and our rights allow.
void copy_attributes(int from, int to) {
  const ssize_t size = ::flistxattr(from, nullptr, 0);
  if (size <= 0 || size > (1 << 16)) return;
  std::string names(static_cast<std::size_t>(size), '\0');
  const ssize_t got = ::flistxattr(from, names.data(), names.size());
  for (std::size_t at = 0; got > 0 && at < static_cast<std::size_t>(got);
       at += std::string_view(names.c_str() + at).size() + 1) {
    const char* name = names.c_str() + at;
    char value[1 << 14];
    if (const ssize_t n = ::fgetxattr(from, name, value, sizeof value); n >= 0)
      (void)::fsetxattr(to, name, value, static_cast<std::size_t>(n), 0);
  }
}

struct Replacement {
  fs::path file;
  std::string_view text;
  std::string expected_hash;  // of the file now; empty: the file is not there
};

Status write_temporary(const fs::path& temporary, const Replacement& r) {
  Fd old(::open(r.file.c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC));
  if (!old && !r.expected_hash.empty()) return fail_errno(errno, r.file.string());
  Fd fd(::open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (!fd) return fail_errno(errno, temporary.string());
  KLAB_TRY_VOID(write_all(fd.get(), std::as_bytes(std::span(r.text))));
  mode_t mode = 0644;
  if (old) {
    struct stat st {
    }, mine{};
    if (::fstat(old.get(), &st) != 0 || ::fstat(fd.get(), &mine) != 0)
      return fail_errno(errno, r.file.string());
    mode = st.st_mode & 07777;
    if (st.st_uid != mine.st_uid || st.st_gid != mine.st_gid)
      if (::fchown(fd.get(), st.st_uid, st.st_gid) != 0 &&
          ::fchown(fd.get(), static_cast<uid_t>(-1), st.st_gid) != 0) {
        // Its owner cannot be kept: then neither may its set-id bits be.
        mode &= 0777;
      }
    copy_attributes(old.get(), fd.get());
  }
  if (::fchmod(fd.get(), mode) != 0) return fail_errno(errno, "fchmod");
  if (::fsync(fd.get()) != 0) return fail_errno(errno, "fsync");
  return {};
}

Status write_backup(const fs::path& folder, const std::string& original, const Saved& saved) {
  std::string record;
  try {
    record = Json(saved).dump(2) + "\n";
  } catch (const std::exception&) {
    // Its record could not name it, so an undo could not find it.
    return fail(ErrorCode::unsupported, fmt::format("the path {} is not UTF-8", saved.file),
                "rename the file or folder");
  }
  KLAB_TRY_VOID(make_folders(folder));
  KLAB_TRY_VOID(write_file_atomic(folder / kOriginal, original));
  return write_file_atomic(folder / kRecord, record);
}

// The whole save, under the lock.
Result<Saved> replace(const Replacement& r, const std::string& undo_of) {
  std::string original;
  if (!r.expected_hash.empty()) {
    KLAB_TRY_VOID(check_writable(r.file));
    KLAB_TRY(original, read_file(r.file, kMaxBackup));
    if (to_string(hash_text(original)) != r.expected_hash)
      return fail(ErrorCode::source_changed,
                  fmt::format("{} was changed since the save was planned", r.file.string()),
                  "look at the change and save again");
  } else if (std::error_code ec; fs::exists(r.file, ec)) {
    return fail(ErrorCode::source_changed, fmt::format("{} has appeared meanwhile", r.file.string()),
                "try again");
  }
  Saved saved;
  saved.id = new_id();
  saved.file = r.file.string();
  saved.backup = (backups() / saved.id / kOriginal).string();
  saved.before_hash = r.expected_hash;
  saved.after_hash = to_string(hash_text(r.text));
  saved.at = utc_now();
  saved.undo_of = undo_of;

  const fs::path partial = backups() / (saved.id + ".partial"), pending = backups() / (saved.id + ".pending");
  const fs::path temporary = temporary_of(r.file, saved.id);
  const auto give_up = [&](Error error) {
    std::error_code ec;
    fs::remove(temporary, ec);
    fs::remove_all(partial, ec);
    fs::remove_all(pending, ec);
    return fail(std::move(error));
  };
  if (auto s = write_backup(partial, original, saved); !s) return give_up(s.error());
  if (::rename(partial.c_str(), pending.c_str()) != 0)
    return give_up(fail_errno(errno, partial.string()).value());
  if (auto s = sync_folder(backups()); !s) return give_up(s.error());
  if (auto s = write_temporary(temporary, r); !s) return give_up(s.error());
  // Writing took time: look once more. What remains is the instant before the rename.
  if (hash_of_file(r.file) != r.expected_hash)
    return give_up({ErrorCode::source_changed, fmt::format("{} was changed during the save", r.file.string()),
                    "look at the change and save again"});
  if (::rename(temporary.c_str(), r.file.c_str()) != 0)
    return give_up(fail_errno(errno, r.file.string()).value());
  // From here on it is saved, and an error of the disk is said but takes nothing back.
  const Status synced = sync_folder(r.file.parent_path());
  if (::rename(pending.c_str(), (backups() / saved.id).c_str()) != 0)
    return fail_errno(errno, pending.string());
  KLAB_TRY_VOID(sync_folder(backups()));
  KLAB_TRY_VOID(synced);
  return saved;
}

Result<std::vector<Saved>> read_all_records() {
  std::vector<std::pair<fs::file_time_type, Saved>> found;
  std::error_code ec;
  for (fs::directory_iterator it(backups(), ec), end; !ec && it != end; it.increment(ec)) {
    if (!is_id(it->path().filename().string())) continue;
    if (auto record = read_record(it->path()))  // one that is damaged must not hide the others
      found.emplace_back(fs::last_write_time(it->path() / kRecord, ec), std::move(*record));
  }
  std::stable_sort(found.begin(), found.end(),
                   [](const auto& a, const auto& b) { return a.first > b.first; });
  std::set<std::string> undone;
  std::vector<Saved> list;
  for (auto& [at, record] : found) {
    if (!record.undo_of.empty()) undone.insert(record.undo_of);
    list.push_back(std::move(record));
  }
  for (Saved& record : list) record.undone = undone.count(record.id) != 0;
  return list;
}

}  // namespace

Result<Saved> save(const SavePlan& plan) {
  if (plan.before == plan.after)
    return fail(ErrorCode::usage, fmt::format("{} is already as the variant has it", plan.file.string()));
  KLAB_TRY(const Fd held, lock());
  sweep();
  return replace({plan.file, plan.after, plan.before_hash}, "");
}

Result<Saved> undo(const std::string& id, bool force) {
  KLAB_TRY(const Fd held, lock());
  sweep();
  const fs::path folder = backups() / id;
  std::error_code ec;
  if (!is_id(id) || !fs::is_directory(folder, ec))
    return fail(ErrorCode::not_found, fmt::format("no save named \"{}\"", id), "klab save --list shows them");
  KLAB_TRY(const Saved record, read_record(folder));
  KLAB_TRY(const std::string original, read_file(folder / kOriginal, kMaxBackup));
  if (to_string(hash_text(original)) != record.before_hash)
    return fail(ErrorCode::invalid_data,
                fmt::format("the backup {} is not what was backed up", (folder / kOriginal).string()),
                "restore the file from version control");
  const std::string now = hash_of_file(record.file);
  if (now != record.after_hash && !force)
    return fail(ErrorCode::source_changed,
                now.empty() ? fmt::format("{} is gone", record.file)
                            : fmt::format("{} was changed since it was saved", record.file),
                "undo with --force: what is there now is backed up first");
  if (now.empty() && fs::exists(fs::symlink_status(record.file, ec)))
    return fail(ErrorCode::unsupported, fmt::format("{} cannot be read", record.file), "check what is there");
  return replace({record.file, original, now}, id);
}

Result<std::vector<Saved>> list_saves() {
  std::error_code ec;
  if (!fs::is_directory(backups(), ec)) return std::vector<Saved>{};
  KLAB_TRY(const Fd held, lock());
  sweep();
  return read_all_records();
}

}  // namespace klab::variant
