// SPDX-License-Identifier: Apache-2.0
#include "ops/lab.h"

#include <fmt/format.h>

#include "ops/session_files.h"

namespace klab::ops {

namespace {

/// A worker and a compiler of one's own.
class OwnEngines : public Engines {
 public:
  explicit OwnEngines(fs::path home) : home_(std::move(home)) {}
  Result<replay::Answer> ask(const replay::Request& request, const replay::OnProgress& progress,
                             const std::function<bool()>& cancelled,
                             const std::function<void(unsigned)>&) override {
    if (!worker_) {
      (void)make_folders(home_ / "logs");
      worker_ =
          std::make_unique<replay::Worker>(replay::Worker::Options{.log = home_ / "logs" / "worker.log"});
    }
    return worker_->ask(request, progress, cancelled);
  }
  compile::Compiler& compiler() override { return compiler_; }

 private:
  fs::path home_;
  std::unique_ptr<replay::Worker> worker_;
  compile::Compiler compiler_;
};

}  // namespace

Lab::Lab(std::unique_ptr<Engines> engines) : home_(klab_home()), engines_(std::move(engines)) {
  if (!engines_) engines_ = std::make_unique<OwnEngines>(home_);
}
Lab::~Lab() = default;

Result<session::Store*> Lab::store() {
  if (!store_) {
    KLAB_TRY(session::Store opened, session::Store::open(home_ / "klab.sqlite"));
    store_ = std::make_unique<session::Store>(std::move(opened));
    KLAB_TRY_VOID(recover_sessions(*store_, home_));
  }
  return store_.get();
}

Result<std::unique_ptr<Engines::Hold>> Lab::hold(const std::string& what) {
  return engines_->hold(what, cancelled, [this](unsigned place) {
    say(fmt::format("waiting for the device: place {} in its queue", place));
  });
}

Result<replay::Answer> Lab::ask(const replay::Request& request) {
  return engines_->ask(
      request,
      [this](const replay::Progress& p) {
        if (progress) progress(p.text, p.done, p.total);
      },
      cancelled, [this](unsigned place) { say(fmt::format("waiting for the device: place {} in its queue", place)); });
}

std::string bundle_id(const bundle::Manifest& manifest) {
  std::string text = manifest.index_hash + manifest.made_at;
  for (const bundle::CodeObject& code : manifest.code) text += code.hash;
  return "b" + to_string(hash_text(text)).substr(0, 12);
}

Result<OpenBundle> open_bundle(const fs::path& path) {
  fs::path folder = path;
  std::error_code ec;
  if (!fs::exists(folder, ec) && fs::exists(folder.string() + ".klab", ec)) folder += ".klab";
  if (!fs::exists(folder, ec)) {
    std::string nearby;
    const fs::path parent = folder.parent_path().empty() ? fs::path(".") : folder.parent_path();
    for (const auto& entry : fs::directory_iterator(parent, ec))
      if (entry.path().extension() == ".klab" && entry.path().filename().string()[0] != '.')
        nearby += (nearby.empty() ? "" : ", ") + entry.path().string();
    return fail(ErrorCode::not_found, fmt::format("no bundle at {}", path.string()),
                nearby.empty() ? "make one with `klab capture`" : "bundles there: " + nearby);
  }
  auto opened = bundle::Reader::open(folder);
  if (!opened) return fail(damaged(std::move(opened.error()), folder));
  bundle::Reader reader = std::move(*opened);
  std::string id = bundle_id(reader.manifest());
  return OpenBundle{std::move(reader), std::move(id)};
}

Result<OpenBundle> open_bundle(Lab& lab, const fs::path& path) {
  KLAB_TRY(OpenBundle opened, open_bundle(path));
  KLAB_TRY(session::Store * store, lab.store());
  std::error_code ec;
  const bundle::Manifest& manifest = opened.reader.manifest();
  KLAB_TRY_VOID(store->put_bundle({.id = opened.id,
                                   .path = fs::absolute(opened.reader.path(), ec).string(),
                                   .kernel = manifest.dispatches.empty() ? "" : manifest.dispatches[0].name,
                                   .made_at = manifest.made_at}));
  return opened;
}

Error damaged(Error error, const fs::path& bundle) {
  if (error.what.find(bundle.filename().string()) == std::string::npos)
    error.what = bundle.string() + ": " + error.what;
  if (error.hint.empty())
    error.hint = error.code == ErrorCode::bundle_version
                     ? "a newer klab made it: use that one"
                     : "the bundle is damaged: copy it again from where it came from, or capture again";
  return error;
}

Status check_dispatch(const OpenBundle& bundle, std::uint32_t dispatch) {
  const std::size_t count = bundle.reader.manifest().dispatches.size();
  if (dispatch < count) return {};
  return fail(
      ErrorCode::not_found,
      fmt::format("the bundle holds {} dispatch(es), numbered from 0; there is no {}", count, dispatch),
      "see them with `klab inspect`");
}

}  // namespace klab::ops
