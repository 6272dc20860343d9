// SPDX-License-Identifier: Apache-2.0
#include "calibrate/cache.h"

#include <fcntl.h>
#include <sys/file.h>

#include <cstring>
#include <ctime>
#include <thread>

#include <fmt/format.h>

#include "base/hash.h"

namespace klab::calibrate {
namespace {

constexpr std::uint64_t kMostBytes = 4ull << 20;
constexpr std::int64_t kClockSkew = 300;  // seconds that a file may seem to come from the future

std::string device_key(const bundle::DeviceIdentity& d) {
  return d.api + "-" + to_string(hash_text(d.api + "\n" + (d.uuid.empty() ? d.name : d.uuid))).substr(0, 16);
}

bool same_device(const bundle::DeviceIdentity& a, const bundle::DeviceIdentity& b) {
  return a.api == b.api && a.uuid == b.uuid && a.name == b.name && a.driver == b.driver &&
         a.driver_version == b.driver_version;
}

std::optional<Calibration> read(const fs::path& file) {
  const auto text = read_file(file, kMostBytes);
  if (!text) return std::nullopt;
  const auto json = parse_json(*text, file.string(), kMostBytes);
  if (!json) return std::nullopt;
  auto calibration = decode_json<Calibration>(*json, file.string());
  if (!calibration) return std::nullopt;
  return std::move(*calibration);
}

}  // namespace

Cache::Cache(fs::path folder, std::string version)
    : folder_(folder.empty() ? klab_cache() / "calibration" : std::move(folder)),
      version_(version.empty() ? KLAB_VERSION : std::move(version)) {}

fs::path Cache::file(const bundle::DeviceIdentity& d) const {
  const std::string rest = to_string(hash_text(d.driver + "\n" + d.driver_version + "\n" + version_)).substr(0, 8);
  return folder_ / fmt::format("{}-{}.json", device_key(d), rest);
}

bool Cache::expired(const Calibration& c, std::int64_t now) const {
  return c.klab != version_ || c.made_at > now + kClockSkew || now - c.made_at > kValidSeconds;
}

std::optional<Calibration> Cache::find(const bundle::DeviceIdentity& device, std::int64_t now) const {
  auto found = read(file(device));
  if (!found || !same_device(found->device, device) || expired(*found, now)) return std::nullopt;
  return found;
}

Status Cache::put(const Calibration& calibration) const {
  KLAB_TRY_VOID(make_folders(folder_));
  return write_file_atomic(file(calibration.device), Json(calibration).dump(1) + "\n", 0600);
}

std::vector<Calibration> Cache::all() const {
  std::vector<Calibration> list;
  std::error_code error;
  for (fs::directory_iterator it(folder_, error), end; !error && it != end && list.size() < 1000; it.increment(error))
    if (it->path().extension() == ".json")
      if (auto one = read(it->path())) list.push_back(std::move(*one));
  std::sort(list.begin(), list.end(),
            [](const Calibration& a, const Calibration& b) { return a.made_at > b.made_at; });
  return list;
}

Result<Cache::Lock> Cache::lock(const bundle::DeviceIdentity& device, const std::function<void()>& waiting,
                                const std::function<bool()>& cancelled) const {
  KLAB_TRY_VOID(make_folders(folder_));
  const fs::path file = folder_ / (device_key(device) + ".lock");
  Fd fd(::open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!fd)
    return fail(ErrorCode::io_failed, fmt::format("{}: {}", file.string(), std::strerror(errno)),
                "is the cache folder writable? $XDG_CACHE_HOME names another");
  bool told = false;
  while (::flock(fd.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK && errno != EINTR)
      return fail(ErrorCode::io_failed, fmt::format("locking {}: {}", file.string(), std::strerror(errno)));
    if (!told && waiting) waiting();
    told = true;
    if (cancelled && cancelled()) return fail(ErrorCode::interrupted, "interrupted while another calibration ran");
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return Lock(std::move(fd));
}

Result<Looked> find_or_measure(const Cache& cache, const bundle::DeviceIdentity& device, bool force,
                               const std::function<Result<Calibration>()>& measure,
                               const std::function<void()>& waiting, const std::function<bool()>& cancelled) {
  const auto now = [] { return static_cast<std::int64_t>(std::time(nullptr)); };
  if (!force)
    if (auto found = cache.find(device, now())) return Looked{std::move(*found), true};
  auto lock = cache.lock(device, waiting, cancelled);
  if (!lock && lock.error().code == ErrorCode::interrupted) return fail(lock.error());
  if (lock && !force)
    if (auto found = cache.find(device, now())) return Looked{std::move(*found), true};
  Looked looked;
  KLAB_TRY(looked.calibration, measure());
  const Status kept = !lock ? Status(fail(lock.error())) : cache.put(looked.calibration);
  if (!kept) looked.calibration.notes.push_back("this calibration could not be kept: " + kept.error().what);
  return looked;
}

}  // namespace klab::calibrate
