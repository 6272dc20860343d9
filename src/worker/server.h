// SPDX-License-Identifier: Apache-2.0
// Answers requests: one device and one loaded capture stay warm between them.
// Not here: framing and the process's life (worker_main.cpp).
#pragma once
#include <functional>
#include <map>
#include <memory>

#include "worker/device_lock.h"
#include "worker/probe.h"
#include "worker/reference.h"

namespace klab::worker {

class Server {
 public:
  struct Hooks {
    std::function<void(const replay::Progress&)> progress;
    /// Called when captured addresses are taken in this process. Starts it anew, or returns how often that
    /// was tried.
    std::function<int()> start_anew;
    /// True when the person has had enough: a comparison ends with what it has.
    std::function<bool()> stop;
  };
  explicit Server(Hooks hooks) : hooks_(std::move(hooks)) {}

  /// Always an answer; an error becomes a typed outcome.
  replay::Answer handle(const replay::Request& request);
  /// The disposable side (klab-worker --probe): loads and runs the tasks of `pending`.
  Status probe(const Json& pending);
  /// True when the device is lost: answer, then leave.
  bool finished() const { return gpu_ != nullptr && gpu_->lost(); }

 private:
  /// What stays true of the baseline while the capture lies where it does.
  struct Kept {
    std::string key;  // what it was made for
    Variant baseline;
    Reference reference;
    bool states_dropped = false;  // device copies of mutated inputs, by a new placement
  };
  struct Run;
  Status load(const replay::Request& request, const Deadline& deadline, replay::Answer& answer);
  /// Takes the device's lock for this request, however long others hold it.
  void lock_device(Deadline& deadline, replay::Answer& answer);
  Status open_device(const bundle::Manifest& manifest, const replay::Request& request,
                     replay::Answer& answer);
  /// The device of `selector` in that API, kept when it is the open one already.
  Status open_selected(gpu::Api& api, const std::string& selector, std::span<const gpu::AddressRange> wanted);
  /// Without a capture: "api:selector", an API's name, or a selector of any API; empty: the first real GPU.
  Status open_named(const std::string& device, replay::Answer& answer);
  Status answer_devices(replay::Answer& answer);
  Status answer_calibrate(const Deadline& deadline, replay::Answer& answer);
  Status answer_proof(const replay::Request& request, const Deadline& deadline, replay::Answer& answer);
  Status answer_run(const replay::Request& request, const Deadline& deadline, replay::Answer& answer);
  /// Gives the capture another place; what is known of the captured kernel stays where it can.
  Status place_anew(const replay::Request& request, const Probed& probe, const Deadline& deadline, std::uint32_t seed);
  /// Times both variants of `run` against each other, if they are right.
  Status compare(Run& run, const Probed& probe);
  void say(const std::string& text, std::uint64_t done = 0, std::uint64_t total = 0);
  Status keep_reference(const replay::Request& request, const Probed& probe, const Deadline& deadline);
  const Probed& probed(const replay::Request& request, const Deadline& deadline);

  Hooks hooks_;
  std::unique_ptr<Gpu> gpu_;
  std::optional<DeviceLock> lock_;  // of the request at work
  std::string device_key_;
  std::vector<std::string> device_notes_;
  std::unique_ptr<Loaded> loaded_;
  std::string loaded_key_;
  std::string capture_key_;               // loaded_key_ without the placement
  std::unique_ptr<Kept> kept_;            // of loaded_
  std::map<std::string, Probed> probes_;  // by capture and device
};

}  // namespace klab::worker
