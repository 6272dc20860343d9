// SPDX-License-Identifier: Apache-2.0
// Devices, loading, and the short verbs. The long ones are in server_run.cpp.
#include "worker/server.h"

#include <sys/stat.h>

#include <algorithm>
#include <cstdlib>

#include <fmt/format.h>

#include "bundle/emulated.h"
#include "gpu/backend.h"
#include "gpu/select.h"
#include "worker/calibrate.h"
#include "worker/proof.h"

namespace klab::worker {
namespace {

/// What makes two bundles the same capture: everything but the proof's outcome, which is added later.
std::string content_key(const bundle::Manifest& manifest) {
  bundle::Manifest copy = manifest;
  for (auto& d : copy.dispatches) d.proof = {};
  return to_string(hash_text(Json(copy).dump()));
}

/// Another folder under the same name is another bundle to read from, whatever it holds: ours may be gone.
std::string folder_key(const std::string& folder) {
  struct stat st {};
  if (::stat(folder.c_str(), &st) != 0) return {};
  return fmt::format("{} {} {}.{}", st.st_dev, st.st_ino, st.st_ctim.tv_sec, st.st_ctim.tv_nsec);
}

bool forced_relocation() {
  const char* value = std::getenv("KLAB_WORKER_FORCE_RELOCATE");
  return value != nullptr && std::string_view(value) == "1";
}

void take_error(replay::Answer& answer, Error error) {
  answer.outcome = outcome_of(error);
  answer.error = std::move(error);
}

}  // namespace

void Server::say(const std::string& text, std::uint64_t done, std::uint64_t total) {
  if (hooks_.progress) hooks_.progress({text, done, total});
}

replay::Answer Server::handle(const replay::Request& request) {
  const auto start = Deadline::Clock::now();
  replay::Answer answer;
  answer.asked = answer.ran = request.conditions;
  Deadline deadline(request.budget_s);
  Status status;
  const bool measures = request.verb == "proof" || request.verb == "replay" || request.verb == "compare";
  const bool without_capture = request.verb == "calibrate" || request.verb == "identify";
  if (measures) {
    // Which device it is, before anything runs on it; the rest is in load().
    if (auto reader = bundle::Reader::open(request.bundle); reader) {
      replay::Answer aside;
      if (open_device(reader->manifest(), request, aside)) lock_device(deadline, answer);
    }
  }
  if (without_capture) {
    status = open_named(request.device, answer);
    if (status && request.verb == "calibrate") {
      lock_device(deadline, answer);
      status = answer_calibrate(deadline, answer);
    }
  } else if (request.verb == "devices")
    status = answer_devices(answer);
  else if (request.verb == "proof")
    status = answer_proof(request, deadline, answer);
  else if (request.verb == "replay" || request.verb == "compare")
    status = answer_run(request, deadline, answer);
  else
    status = fail(ErrorCode::usage, fmt::format("the worker knows no verb \"{}\"", request.verb),
                  "devices, identify, calibrate, replay, compare, proof or stop");
  if (!status) {
    // Honest also then: only launches whose times were kept have run.
    std::size_t fewest = answer.variants.empty() ? 0 : SIZE_MAX;
    for (const auto& v : answer.variants) fewest = std::min(fewest, v.samples_ns.size());
    answer.ran.iterations = static_cast<std::uint32_t>(fewest);
    take_error(answer, status.error());
  }
  lock_.reset();
  answer.wall_ms = std::chrono::duration<double, std::milli>(Deadline::Clock::now() - start).count();
  return answer;
}

void Server::lock_device(Deadline& deadline, replay::Answer& answer) {
  if ((*gpu_)->identity().api == "fake") return;
  const auto start = Deadline::Clock::now();
  bool waited = false;
  lock_ = DeviceLock::take(
      (*gpu_)->identity(),
      [&](long pid) {
        waited = true;
        if (hooks_.progress)
          hooks_.progress({pid > 0 ? fmt::format("waiting for the device: held by process {}", pid)
                                   : "waiting for the device",
                           0, 0, true});
      },
      answer.notes);
  if (waited) say("the device is free");
  deadline.leave_out(Deadline::Clock::now() - start);
}

Status Server::answer_devices(replay::Answer& answer) {
  for (const auto& api : gpu::apis()) {
    if (api->name() == "fake") continue;  // opened by name only, never shown
    auto list = api->list();
    if (!list) {
      answer.devices.push_back(Json{{"api", api->name()}, {"error", list.error()}});
      continue;
    }
    int index = 0;
    for (const auto& l : *list)
      answer.devices.push_back(Json{
          {"api", api->name()}, {"index", index++}, {"identity", l.identity}, {"abilities", l.abilities}});
  }
  return {};
}

Status Server::open_selected(gpu::Api& api, const std::string& selector,
                             std::span<const gpu::AddressRange> wanted) {
  const std::string key = fmt::format("{}\n{}", api.name(), selector);
  if (gpu_ != nullptr && device_key_ == key) return {};
  kept_.reset();
  loaded_.reset();
  loaded_key_.clear();
  gpu_.reset();
  KLAB_TRY(auto device, api.open(selector, wanted));
  gpu_ = std::make_unique<Gpu>(std::move(device));
  device_key_ = key;
  return {};
}

Status Server::open_named(const std::string& device, replay::Answer& answer) {
  gpu::Api* chosen = nullptr;
  std::string selector = device;
  const auto colon = device.find(':');
  for (const auto& api : gpu::apis())
    if (api->name() == device.substr(0, colon)) {
      chosen = api.get();
      selector = colon == std::string::npos ? std::string() : device.substr(colon + 1);
    }
  if (chosen == nullptr) {
    // A real GPU goes before a CPU driver, whichever API is asked first.
    std::optional<Error> why;
    bool real = false;
    for (const auto& api : gpu::apis()) {
      if (api->name() == "fake") continue;
      const auto list = api->list();
      if (!list) {
        if (!why) why = list.error();
        continue;
      }
      std::vector<bundle::DeviceIdentity> identities;
      for (const gpu::Listed& l : *list) identities.push_back(l.identity);
      if (identities.empty()) continue;
      const auto found = gpu::choose_device(api->name(), identities, selector);
      if (!found) {
        why = found.error();
        continue;
      }
      const bool here = identities[*found].type == "discrete" || identities[*found].type == "integrated";
      if (chosen == nullptr || (here && !real)) chosen = api.get(), real = here;
    }
    if (chosen == nullptr)
      return fail(why.value_or(Error{ErrorCode::no_device, "no device of any API was found", "klab doctor", 0}));
  }
  KLAB_TRY_VOID(open_selected(*chosen, selector, {}));
  answer.device = (*gpu_)->identity();
  return {};
}

Status Server::answer_calibrate(const Deadline& deadline, replay::Answer& answer) {
  if (bundle::is_emulated(answer.device))
    return fail(ErrorCode::unsupported, "this device is emulated: it attains nothing that could be measured", "klab devices lists the others");
  // A capture that is kept warm fills memory that the arrays need.
  kept_.reset();
  loaded_.reset();
  loaded_key_.clear();
  KLAB_TRY(answer.calibration,
           calibrate(*gpu_, deadline, [this](const std::string& what, std::uint64_t done, std::uint64_t total) {
             say("calibrating: " + what, done, total);
           }));
  return {};
}

Status Server::open_device(const bundle::Manifest& manifest, const replay::Request& request,
                           replay::Answer& answer) {
  // "API:rest" names another API than the capture's.
  std::string api_name = manifest.device.api, selector = request.device;
  if (const auto colon = selector.find(':'); colon != std::string::npos) {
    for (const auto& api : gpu::apis())
      if (api->name() == selector.substr(0, colon)) {
        api_name = selector.substr(0, colon);
        selector = selector.substr(colon + 1);
        break;
      }
  }
  KLAB_TRY(auto* api, gpu::find_api(api_name));
  const auto& want = manifest.device;
  if (selector.empty()) {
    KLAB_TRY(const auto all, api->list());
    const auto same = [&](const gpu::Listed& l) {
      return !want.uuid.empty() && l.identity.uuid == want.uuid;
    };
    // Of two drivers for one GPU the capture's own comes first.
    auto it = std::find_if(all.begin(), all.end(), [&](const gpu::Listed& l) {
      return same(l) && l.identity.driver_version == want.driver_version && l.identity.driver == want.driver;
    });
    if (it == all.end()) it = std::find_if(all.begin(), all.end(), same);
    if (it != all.end()) selector = std::to_string(it - all.begin());
  }
  std::vector<gpu::AddressRange> wanted;
  if (request.dispatch < manifest.dispatches.size())
    for (const auto& r : manifest.dispatches[request.dispatch].regions)
      if (r.address != 0) wanted.push_back({r.address, r.size});
  if (forced_relocation()) wanted.clear();
  KLAB_TRY_VOID(open_selected(*api, selector, wanted));
  const auto& got = (*gpu_)->identity();
  answer.device = got;
  if (got.uuid != want.uuid)
    answer.notes.push_back(fmt::format("captured on {}, replayed on {}", want.name, got.name));
  else if (got.driver_version != want.driver_version)
    answer.notes.push_back(
        fmt::format("captured with driver {}, replayed with {}", want.driver_version, got.driver_version));
  return {};
}

Status Server::load(const replay::Request& request, const Deadline& deadline, replay::Answer& answer) {
  KLAB_TRY(auto reader, bundle::Reader::open(request.bundle));
  KLAB_TRY_VOID(open_device(reader.manifest(), request, answer));
  const std::string capture =
      fmt::format("{} {} {}", content_key(reader.manifest()), request.dispatch, device_key_);
  // The proof's outcome is used too (what it saw vary), but it changes nothing of what was probed.
  const std::string proofs = request.dispatch < reader.manifest().dispatches.size()
                                 ? Json(reader.manifest().dispatches[request.dispatch].proof).dump()
                                 : std::string();
  const std::string key =
      fmt::format("{}\n{}\n{}\n{}\n{}", capture, request.bundle, folder_key(request.bundle), request.conditions.memory, proofs);
  if (loaded_ == nullptr || loaded_key_ != key) {
    kept_.reset();
    loaded_.reset();
    loaded_key_.clear();
    say("loading the capture");
    PlaceOptions options{.pool = request.conditions.memory, .relocate = forced_relocation()};
    auto loaded = Loaded::create(std::move(reader), request.dispatch, *gpu_, options, deadline);
    if (!loaded && loaded.error().code == ErrorCode::address_collision) {
      const int attempts = hooks_.start_anew ? hooks_.start_anew() : 0;  // returns when tried often enough
      answer.notes.push_back(
          fmt::format("the captured addresses were taken in this process and in {} fresh one(s): {}",
                      attempts, loaded.error().what));
      KLAB_TRY(auto again, bundle::Reader::open(request.bundle));
      options.relocate = true;
      loaded = Loaded::create(std::move(again), request.dispatch, *gpu_, options, deadline);
    }
    if (!loaded) return fail(loaded.error());
    loaded_ = std::move(*loaded);
    loaded_key_ = key;
    capture_key_ = capture;
  }
  answer.address_mode = loaded_->address_mode();
  answer.rewritten_words = loaded_->rewritten_words();
  answer.captured_bytes = loaded_->captured_bytes();
  if (answer.address_mode == replay::AddressMode::exact)
    answer.address_by = gpu_->abilities().fixed_addresses_by;
  if (answer.address_mode == replay::AddressMode::relocated)
    answer.notes.push_back(
        fmt::format("regions lie at other addresses than captured; {} pointer word(s) rewritten",
                    answer.rewritten_words));
  answer.notes.insert(answer.notes.end(), loaded_->notes().begin(), loaded_->notes().end());
  return {};
}

const Probed& Server::probed(const replay::Request& request, const Deadline& deadline) {
  const auto it = probes_.find(capture_key_);
  if (it != probes_.end()) return it->second;
  say("finding out which bytes the kernel only writes");
  auto result = probe_poison(request, deadline);
  Probed& slot = probes_[capture_key_];
  if (result)
    slot = std::move(*result);
  else
    slot.notes.push_back("nothing is poisoned: " + result.error().what);
  return slot;
}

Status Server::answer_proof(const replay::Request& request, const Deadline& deadline,
                            replay::Answer& answer) {
  KLAB_TRY_VOID(load(request, deadline, answer));
  say("replaying the capture");
  auto baseline = make_variant(*loaded_, {});
  if (baseline) {
    answer.notes.insert(answer.notes.end(), baseline->notes.begin(), baseline->notes.end());
    answer.rewritten_words += baseline->rewritten_words;
  }
  auto proof =
      baseline ? prove(*loaded_, *baseline, deadline) : Result<bundle::Proof>(fail(baseline.error()));
  if (!proof) {
    answer.proof.state = bundle::ProofState::failed;
    answer.proof.detail = proof.error().what;
    return fail(proof.error());
  }
  answer.proof = std::move(*proof);
  return {};
}

Status Server::probe(const Json& pending) {
  KLAB_TRY(auto request, decode_json<replay::Request>(pending.value("request", Json()), "probe"));
  const Deadline deadline(request.budget_s);
  replay::Answer answer;
  request.conditions.memory.clear();
  KLAB_TRY_VOID(load(request, deadline, answer));
  return run_probe(pending, request, *loaded_, deadline);
}

}  // namespace klab::worker
