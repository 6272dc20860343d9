// SPDX-License-Identifier: Apache-2.0
// Calibrations kept on disk: one file for each device, driver and version of Klab, valid for seven days, and a lock
// for each device around looking and measuring, so that two who ask at once measure once.
#pragma once
#include <functional>

#include "base/files.h"
#include "calibrate/calibration.h"

namespace klab::calibrate {

inline constexpr std::int64_t kValidSeconds = 7 * 24 * 3600;

class Cache {
 public:
  /// `folder`: empty is klab_cache()/calibration. `version`: of Klab; empty is this one's.
  explicit Cache(fs::path folder = {}, std::string version = {});

  /// A valid one. A file that is damaged, old, or of another driver or version is none.
  std::optional<Calibration> find(const bundle::DeviceIdentity& device, std::int64_t now) const;
  /// Whole or not at all, 0600. Errors: io_failed, disk_full.
  Status put(const Calibration& calibration) const;
  /// All that can be read, newest first; expired() says which do not count any more.
  std::vector<Calibration> all() const;
  bool expired(const Calibration& calibration, std::int64_t now) const;
  fs::path file(const bundle::DeviceIdentity& device) const;

  /// Held until it is destroyed; given up by the system when its process ends, however.
  class Lock {
   public:
    explicit Lock(Fd fd) : fd_(std::move(fd)) {}

   private:
    Fd fd_;
  };
  /// Waits for who holds it; `waiting` is called once when it has to. Errors: interrupted, io_failed.
  Result<Lock> lock(const bundle::DeviceIdentity& device, const std::function<void()>& waiting,
                    const std::function<bool()>& cancelled) const;

 private:
  fs::path folder_;
  std::string version_;
};

struct Looked {
  Calibration calibration;
  bool cached = false;  // it was there
};
/// The one way to a calibration: locks, looks, measures when there is none (or `force`), keeps it. One that cannot be
/// kept is answered with a note that says why. Errors: interrupted, and those of `measure`.
Result<Looked> find_or_measure(const Cache& cache, const bundle::DeviceIdentity& device, bool force,
                               const std::function<Result<Calibration>()>& measure,
                               const std::function<void()>& waiting, const std::function<bool()>& cancelled);

}  // namespace klab::calibrate
