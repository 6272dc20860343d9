// SPDX-License-Identifier: Apache-2.0
#include "ops/capture.h"

#include <fmt/format.h>

#include "base/ids.h"

namespace klab::ops {

Result<Traced> trace_dispatches(Lab& lab, const capture::Target& target, const fs::path& out) {
  KLAB_TRY(import::DispatchList list, capture::trace(target, lab.line_progress(), lab.cancelled));
  const fs::path file =
      out.empty() ? lab.home() / "traces" / fmt::format("{}-{}.jsonl", utc_now(), new_id(4)) : out;
  if (out.empty()) KLAB_TRY_VOID(make_folders(file.parent_path()));
  KLAB_TRY_VOID(import::write_list(file, list));
  return Traced{std::move(list), file};
}

Result<bundle::Proof> prove(Lab& lab, const fs::path& path, std::uint32_t dispatch) {
  KLAB_TRY(OpenBundle opened, open_bundle(lab, path));
  KLAB_TRY_VOID(check_dispatch(opened, dispatch));
  replay::Request request{
      .verb = "proof", .bundle = fs::absolute(opened.reader.path()).string(), .dispatch = dispatch};
  KLAB_TRY(replay::Answer answer, lab.ask(request));
  bundle::Proof proof = answer.proof;
  if (answer.outcome != replay::Outcome::ok) {
    proof = {};
    proof.state = bundle::ProofState::failed;
    proof.detail = answer.error ? answer.error->what : to_string(answer.outcome);
  }
  proof.at = utc_now();
  bundle::Manifest manifest = opened.reader.manifest();
  manifest.dispatches[dispatch].proof = proof;
  KLAB_TRY_VOID(bundle::update_manifest(opened.reader.path(), manifest));
  return proof;
}

Result<CaptureAnswer> capture_dispatch(Lab& lab, const capture::CaptureRequest& request, bool with_proof) {
  CaptureAnswer answer;
  KLAB_TRY(answer.captured, capture::capture(request, lab.line_progress(), lab.cancelled));
  const fs::path path = answer.captured.sealed.path;
  KLAB_TRY(OpenBundle opened, open_bundle(lab, path));
  answer.id = opened.id;
  if (!with_proof) return answer;
  lab.say("proof replay: running the captured dispatch from its pre-state");
  for (std::uint32_t i = 0; i < opened.reader.manifest().dispatches.size(); ++i) {
    auto proof = prove(lab, path, i);
    if (!proof) {
      if (proof.error().code == ErrorCode::interrupted) return fail(proof.error());
      answer.proof_error = proof.error();
      break;
    }
    answer.proofs.push_back(std::move(*proof));
  }
  return answer;
}

}  // namespace klab::ops
