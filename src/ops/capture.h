// SPDX-License-Identifier: Apache-2.0
// Verbs that run the user's program: dispatches and capture. The proof replay after a capture is here.
#pragma once
#include "capture/capture.h"
#include "ops/lab.h"

namespace klab::ops {

struct Traced {
  import::DispatchList list;
  fs::path file;  // where the list was written
};
/// As `klab dispatches --json`: kernels by GPU time; `rows`: every dispatch too. `wanted`: one for each
/// kernel of the list, those that are told; empty: all.
Json dispatches_json(const import::DispatchList& list, const fs::path& file, bool rows = false,
                     const std::vector<bool>& wanted = {});
/// Runs the target in trace mode and keeps the list under $KLAB_HOME/traces. Errors: those of capture::trace.
Result<Traced> trace_dispatches(Lab& lab, const capture::Target& target, const fs::path& out);

struct CaptureAnswer {
  capture::Captured captured;
  std::string id;                     // of the bundle
  std::vector<bundle::Proof> proofs;  // one a dispatch
  std::optional<Error> proof_error;   // the worker could not run the proof; the bundle is kept
};
/// As `klab capture --json`. Errors: those of reading the bundle.
Result<Json> capture_json(const CaptureAnswer& answer);
/// Captures, seals, then replays each captured dispatch from its pre-state and compares with its post-state;
/// the outcome goes into the manifest. A failing proof is not an error: the bundle is kept and says so.
Result<CaptureAnswer> capture_dispatch(Lab& lab, const capture::CaptureRequest& request, bool prove);

/// Runs (again) the proof of one dispatch and stores its outcome. Errors: those of the worker.
Result<bundle::Proof> prove(Lab& lab, const fs::path& bundle, std::uint32_t dispatch);

}  // namespace klab::ops
