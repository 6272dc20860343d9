// SPDX-License-Identifier: Apache-2.0
// Where a session keeps what: $KLAB_HOME/sessions/ID/ with capture-N.klab (deleted at close), dumps/ (deleted at close),
// variants/ (texts that a front end sent), logs/JOB.log.
#pragma once
#include <cstdint>

#include "base/error.h"
#include "base/files.h"
#include "session/store.h"

namespace klab::ops {

fs::path session_folder(const fs::path& home, const std::string& id);
/// A name for the next capture.
fs::path next_capture(const fs::path& folder);
struct FreedFiles {
  std::uint64_t bytes = 0;
  std::vector<std::string> kept;  // what is left, by kind
};
/// Deletes the captured inputs and validation dumps of a session that is closed.
FreedFiles delete_inputs(const fs::path& folder);

/// What a process that died left: its jobs become lost, sessions go back to rest, its half-made captures are swept, and
/// a close that was cut short is finished. Nothing else is touched. Cheap when there is nothing to do.
Status recover_sessions(session::Store& store, const fs::path& home);

}  // namespace klab::ops
