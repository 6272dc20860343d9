// SPDX-License-Identifier: Apache-2.0
// session.save, .undo, .approvals, .approve: a variant goes into the user's file when a person has said so.
#include <fmt/format.h>

#include <algorithm>
#include <ctime>

#include "ops/allowed.h"
#include "ops/session_verbs.h"
#include "ops/session_work.h"

namespace klab::ops {
namespace {

using session::ApprovalRow;
using session::ApprovalState;
using session::Move;

std::int64_t now() { return static_cast<std::int64_t>(std::time(nullptr)); }

struct SaveArguments {
  std::string id, variant, file, base_hash, token;
  bool approved = false;
};

/// The approval must be for just this write: one text over one text in one file.
Status check_approval(const ApprovalRow& row, const std::string& session, const variant::SavePlan& plan,
                      const std::string& after_hash) {
  if (row.session != session)
    return fail(ErrorCode::not_allowed, "this token belongs to another session",
                "save without a token for a new preview");
  if (row.file != plan.file.string() || row.after_hash != after_hash)
    return fail(ErrorCode::not_allowed, "this token is for another file or another text",
                "save without a token for a new preview");
  if (row.before_hash != plan.before_hash)
    return fail(ErrorCode::source_changed, fmt::format("{} has changed since the preview", row.file),
                "save without a token for a new preview");
  return {};
}

Result<Json> write(SessionWork& work, const SavePreview& preview, const std::string& approved_by) {
  KLAB_TRY(const variant::Saved saved, variant::save(preview.plan));
  KLAB_TRY_VOID(work.store.history().add_save({.id = saved.id,
                                               .session = work.row.id,
                                               .variant = preview.variant.id,
                                               .file = saved.file,
                                               .backup = saved.backup,
                                               .before_hash = saved.before_hash,
                                               .after_hash = saved.after_hash,
                                               .approved_by = approved_by,
                                               .at = saved.at}));
  work.said["file"] = saved.file;
  work.said["save"] = saved.id;
  work.said["approved_by"] = approved_by;
  return Json{{"state", "saved"},
              {"saved", saved},
              {"file", saved.file},
              {"diff", preview.plan.diff},
              {"undo", "klab save --undo " + saved.id}};
}

}  // namespace

Result<Json> session_save(Lab& lab, const Json& arguments) {
  SaveArguments a;
  KLAB_TRY_VOID(Fields(arguments, "session.save")
                    .need("session", a.id)
                    .need("variant", a.variant)
                    .take("file", a.file)
                    .take("base_hash", a.base_hash)
                    .take("token", a.token)
                    .take("approved", a.approved)
                    .done());
  KLAB_TRY(session::Store * store, lab.store());
  KLAB_TRY(session::SessionRow row, store->sessions().get(a.id));
  KLAB_TRY_VOID(session::next(row.state, Move::save));
  KLAB_TRY(const fs::path bundle, session_bundle(row));
  SaveRequest request{.bundle = bundle, .variant = a.variant};
  if (!a.file.empty()) {
    KLAB_TRY(const Allowed file, open_allowed(row.roots, a.file, PathKind::file));
    request.file = file.path;
  }
  KLAB_TRY(const SavePreview preview, preview_save(lab, request));
  // The selected source was allowed when it was selected; it is checked again now, by the file that it is
  // now.
  KLAB_TRY_VOID(open_allowed(row.roots, preview.plan.file.string(), PathKind::file));
  if (!a.base_hash.empty() && a.base_hash != preview.plan.before_hash)
    return fail(ErrorCode::source_changed,
                fmt::format("{} is not what base_hash says", preview.plan.file.string()),
                "read it again, then save");
  const std::string after_hash = to_string(hash_text(preview.plan.after));
  Json shown{{"file", preview.plan.file.string()},
             {"diff", preview.plan.diff},
             {"before_hash", preview.plan.before_hash},
             {"after_hash", after_hash},
             {"verdict", preview.verdict}};
  if (preview.plan.diff.empty()) {
    shown["state"] = "unchanged";
    return with_session(std::move(shown), row);
  }
  session::History history = store->history();
  const Settings settings = decode_json<Settings>(row.settings, "stored settings").value_or(Settings{});
  std::string approved_by;
  if (!a.token.empty()) {
    KLAB_TRY(ApprovalRow approval, history.approval(a.token, now()));
    KLAB_TRY_VOID(check_approval(approval, a.id, preview.plan, after_hash));
    if (approval.state == ApprovalState::pending && a.approved) {
      KLAB_TRY(approval, history.decide(a.token, true, lab.front_end, now()));
    }
    if (approval.state == ApprovalState::pending)
      return fail(ErrorCode::not_allowed, "nobody has approved this save yet",
                  "a person runs: klab session approve " + a.token);
    approved_by = approval.decided_by;
  } else if (a.approved) {
    approved_by = lab.front_end;
  } else if (beneath(settings.allow_save, preview.plan.file)) {
    approved_by = "allow_save";
  } else {
    KLAB_TRY(const ApprovalRow asked, history.ask({.session = a.id,
                                                   .variant = preview.variant.id,
                                                   .file = preview.plan.file.string(),
                                                   .before_hash = preview.plan.before_hash,
                                                   .after_hash = after_hash,
                                                   .diff = preview.plan.diff,
                                                   .asked_by = lab.front_end},
                                                  now()));
    KLAB_TRY_VOID(store->sessions().add_event(
        a.id, "save_asked", {{"file", asked.file}, {"variant", asked.variant}, {"by", lab.front_end}}));
    shown["state"] = "preview";
    shown["token"] = asked.token;
    shown["approve_with"] = "klab session approve " + asked.token;
    return with_session(std::move(shown), row);
  }
  return work_in_session(lab, a.id, "save", Move::save, arguments, [&](SessionWork& work) -> Result<Json> {
    // Used up before the write: cut short between the two, it has to be asked for again.
    if (!a.token.empty()) KLAB_TRY_VOID(work.store.history().use(a.token, now()));
    return write(work, preview, approved_by);
  });
}

Result<Json> session_undo(Lab& lab, const Json& arguments) {
  std::string id, save;
  bool force = false;
  KLAB_TRY_VOID(
      Fields(arguments, "session.undo").need("session", id).need("save", save).take("force", force).done());
  if (lab.front_end != "cli" && lab.front_end != "page")
    return fail(ErrorCode::not_allowed, "only a person undoes a save", "klab save --undo " + save);
  KLAB_TRY(session::Store * store, lab.store());
  KLAB_TRY(const session::SessionRow row, store->sessions().get(id));
  KLAB_TRY(const auto saves, store->history().saves(id));
  const auto of_session = std::find_if(saves.begin(), saves.end(), [&](const auto& s) { return s.id == save; });
  if (of_session == saves.end())
    return fail(ErrorCode::not_found, fmt::format("save {} is not of this session", save.substr(0, 80)),
                "session.status with view saves lists them");
  KLAB_TRY_VOID(open_allowed(row.roots, of_session->file, PathKind::file));
  KLAB_TRY(const variant::Saved undone, variant::undo(save, force));
  KLAB_TRY_VOID(store->sessions().add_event(
      id, "undone", {{"file", undone.file}, {"save", save}, {"by", lab.front_end}}));
  return with_session(Json{{"state", "undone"}, {"file", undone.file}, {"saved", undone}}, row);
}

Result<Json> session_approvals(Lab& lab, const Json& arguments) {
  std::string id;
  KLAB_TRY_VOID(Fields(arguments, "session.approvals").take("session", id).done());
  KLAB_TRY(session::Store * store, lab.store());
  KLAB_TRY(const auto pending, store->history().pending(id, now()));
  return Json{{"approvals", pending}, {"next_actions", Json::array()}};
}

Result<Json> session_approve(Lab& lab, const Json& arguments) {
  std::string token;
  bool deny = false;
  KLAB_TRY_VOID(Fields(arguments, "session.approve").need("token", token).take("deny", deny).done());
  if (lab.front_end != "cli" && lab.front_end != "page")
    return fail(ErrorCode::not_allowed, "only a person approves a save", "klab session approve TOKEN");
  KLAB_TRY(session::Store * store, lab.store());
  KLAB_TRY(const ApprovalRow row, store->history().decide(token, !deny, lab.front_end, now()));
  KLAB_TRY_VOID(
      store->sessions().add_event(row.session, deny ? "save_denied" : "save_approved",
                                  {{"file", row.file}, {"variant", row.variant}, {"by", lab.front_end}}));
  return Json{{"approval", row}, {"next_actions", Json::array()}};
}

}  // namespace klab::ops
