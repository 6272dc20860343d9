// SPDX-License-Identifier: Apache-2.0
#include "ops/capture.h"

#include <fmt/format.h>

#include "base/ids.h"

namespace klab::ops {

Json dispatches_json(const import::DispatchList& list, const fs::path& file, bool with_rows,
                     const std::vector<bool>& wanted) {
  const auto told = [&](std::uint32_t kernel) {
    return kernel < list.kernels.size() && (wanted.empty() || wanted.at(kernel));
  };
  Json kernels = Json::array();
  for (const import::Summary& s : import::summarise(list)) {
    if (!told(s.kernel)) continue;
    const import::Kernel& k = list.kernels[s.kernel];
    kernels.push_back({{"name", k.name},
                       {"entry_point", k.entry_point},
                       {"hash", k.hash},
                       {"code_hash", k.code_hash},
                       {"block", k.block},
                       {"calls", s.calls},
                       {"total_ns", s.total_ns},
                       {"median_ns", s.median_ns},
                       {"min_ns", s.min_ns},
                       {"max_ns", s.max_ns},
                       {"share", s.share},
                       {"refusal", k.refusal}});
  }
  Json answer{{"list", file.string()},          {"source", list.source}, {"device", list.device},
              {"dispatches", list.rows.size()}, {"kernels", kernels},    {"exit_code", list.exit_code},
              {"warnings", list.warnings}};
  if (with_rows) {
    Json rows = Json::array();
    for (const import::Row& r : list.rows)
      if (told(r.kernel))
        rows.push_back({{"sequence", r.sequence},
                        {"nth", r.nth},
                        {"kernel", list.kernels[r.kernel].name},
                        {"grid", r.grid},
                        {"block", r.block[0] != 0 ? r.block : list.kernels[r.kernel].block},
                        {"dynamic_shared_bytes", r.dynamic_shared_bytes},
                        {"call", r.call},
                        {"queue", r.queue},
                        {"begin_ns", r.begin_ns},
                        {"gpu_ns", r.gpu_ns}});
    answer["rows"] = std::move(rows);
  }
  return answer;
}

Result<Json> capture_json(const CaptureAnswer& answer) {
  const capture::Captured& c = answer.captured;
  KLAB_TRY(const OpenBundle opened, open_bundle(c.sealed.path));
  Json j{{"bundle", fs::absolute(c.sealed.path).string()},
         {"id", answer.id},
         {"dispatches", opened.reader.manifest().dispatches},
         {"captured_bytes", c.captured_bytes},
         {"stored_bytes", c.sealed.stored_bytes},
         {"shim_ms", c.shim_ms},
         {"target_exit", c.target_exit},
         {"warnings", c.warnings},
         {"proofs", answer.proofs}};
  if (answer.proof_error) j["proof_error"] = *answer.proof_error;
  return j;
}

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
