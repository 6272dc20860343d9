// SPDX-License-Identifier: Apache-2.0
// One flock for each device, in a folder that all users of a machine share: who holds it may measure. It
// protects across users, hubs and commands without one; a worker that dies gives it up. Not here: the order
// within one hub (hub/queue.h).
#pragma once
#include <functional>
#include <optional>
#include <string>

#include "base/files.h"
#include "bundle/manifest.h"

namespace klab::worker {

/// Given up on destruction.
class DeviceLock {
 public:
  /// Waits; `waiting` is called now and then with the pid that holds it (0: not known). `notes` gets a
  /// sentence when there can be no lock: that is no failure. $KLAB_LOCKS names another folder than
  /// /tmp/klab-locks.
  static std::optional<DeviceLock> take(const bundle::DeviceIdentity& device,
                                        const std::function<void(long pid)>& waiting,
                                        std::vector<std::string>& notes);

 private:
  explicit DeviceLock(Fd fd) : fd_(std::move(fd)) {}
  Fd fd_;
};

}  // namespace klab::worker
