// SPDX-License-Identifier: Apache-2.0
#include "hub/pool.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/hash.h"
#include "base/ids.h"

namespace klab::hub {
namespace {

// Drivers, layers and loaders; toolkits and compilers; Klab's own; where programs and files are found;
// languages.
constexpr std::string_view kPrefixes[] = {
    "KLAB_", "VK_",    "MESA_",  "LP_",   "LLVM_",        "GALLIUM_", "RADV_",   "ACO_",  "AMD_",
    "ANV_",  "INTEL_", "NV_",    "__NV_", "NVK_",         "NVIDIA_",  "CUDA",    "HIP_",  "ROCR_",
    "ROCM_", "HSA_",   "GPU_",   "LD_",   "DRI_",         "EGL_",     "LIBGL_",  "ZINK_", "PYTHON",
    "OMP_",  "NVCC_",  "NVRTC_", "CPATH", "LIBRARY_PATH", "ENABLE_",  "DISABLE_"};
constexpr std::string_view kNames[] = {"PATH",
                                       "HOME",
                                       "TMPDIR",
                                       "XDG_CACHE_HOME",
                                       "XDG_DATA_HOME",
                                       "XDG_DATA_DIRS",
                                       "XDG_CONFIG_HOME",
                                       "XDG_CONFIG_DIRS",
                                       "XDG_RUNTIME_DIR",
                                       "VIRTUAL_ENV",
                                       "CONDA_PREFIX",
                                       "DISPLAY",
                                       "WAYLAND_DISPLAY",
                                       "LANG",
                                       "LC_ALL",
                                       "LC_MESSAGES",
                                       "LC_CTYPE",
                                       "CC",
                                       "CXX",
                                       "GLIBC_TUNABLES",
                                       "MALLOC_CONF"};

std::string key_of(const bundle::DeviceIdentity& device) {
  return !device.uuid.empty() ? device.uuid : device.api + ":" + device.name;
}

bool is_uuid(const std::string& text) {
  return text.size() == 32 && text.find_first_not_of("0123456789abcdef") == std::string::npos;
}

/// Only who the device was: the queue must not wait for a bundle to be read whole.
std::optional<bundle::DeviceIdentity> device_of_bundle(const fs::path& bundle) {
  const auto text = read_file(bundle / "manifest.json", 64u << 20);
  if (!text) return {};
  const auto json = parse_json(*text, "manifest");
  if (!json || !json->is_object() || !json->contains("device")) return {};
  const auto device = decode_json<bundle::DeviceIdentity>((*json)["device"], "manifest");
  return device ? std::optional(*device) : std::nullopt;
}

double seconds_since(std::chrono::steady_clock::time_point t) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - t).count();
}

}  // namespace

std::string fingerprint(const Variables* environment) {
  if (environment == nullptr) return {};
  std::string text;
  for (const auto& [key, value] : *environment) {
    const std::string& name = key;  // a lambda cannot capture a structured binding (clang)
    const bool counts =
        std::find(std::begin(kNames), std::end(kNames), name) != std::end(kNames) ||
        std::any_of(std::begin(kPrefixes), std::end(kPrefixes), [&](auto p) { return name.starts_with(p); });
    if (counts) text += name + "=" + value + '\0';
  }
  return to_string(hash_text(text));
}

/// One call's view of the pool.
class Pool::PooledEngines : public ops::Engines {
 public:
  PooledEngines(Pool* pool, Caller caller)
      : pool_(pool),
        caller_(std::move(caller)),
        fingerprint_(fingerprint(caller_.environment.get())),
        compiler_([this](const compile::Request& request, double limit_s) {
          return pool_->compile(fingerprint_, request, limit_s, caller_.cancelled);
        }) {}

  Result<replay::Answer> ask(const replay::Request& request, const replay::OnProgress& progress,
                             const std::function<bool()>& cancelled,
                             const std::function<void(unsigned)>& on_wait) override {
    const bool works = request.verb != "devices" && request.verb != "identify" && request.verb != "stop";
    const std::string device = works ? pool_->device_of(fingerprint_, request) : std::string();
    std::unique_ptr<DeviceQueue::Turn> turn;
    if (works && !caller_.inside_hold && holds_ == 0) {
      KLAB_TRY(turn, wait(device, request.verb, cancelled, on_wait));
    }
    if (works) begin();
    const std::shared_ptr<Slot> slot = pool_->take(fingerprint_, device, caller_.what);
    auto answer = slot->worker->ask(request, progress, cancelled);
    // Another one's warm capture may be what fills the device.
    if (answer && ran_out(*answer) && pool_->end_idle(slot->device)) {
      if (progress)
        progress({"device memory ran out: other warm workers were ended, once more", 0, 0, false});
      answer = slot->worker->ask(request, progress, cancelled);
    }
    if (answer && works) {
      pool_->learn(fingerprint_, request, *answer);
      if (!answer->device.name.empty()) {
        const std::lock_guard lock(pool_->mutex_);
        slot->device = key_of(answer->device);
      }
    }
    pool_->give_back(slot);
    return answer;
  }

  compile::Compiler& compiler() override { return compiler_; }

  Result<std::unique_ptr<Hold>> hold(const std::string& what, const std::function<bool()>& cancelled,
                                     const std::function<void(unsigned)>& on_wait) override {
    struct Held : Hold {
      Held(std::unique_ptr<DeviceQueue::Turn> t, int* c) : turn(std::move(t)), count(c) { ++*count; }
      ~Held() override { --*count; }
      std::unique_ptr<DeviceQueue::Turn> turn;
      int* count;
    };
    std::unique_ptr<DeviceQueue::Turn> turn;
    if (!caller_.inside_hold && holds_ == 0) {
      KLAB_TRY(turn, wait({}, what, cancelled, on_wait));
    }
    begin();
    return std::make_unique<Held>(std::move(turn), &holds_);
  }

 private:
  Result<std::unique_ptr<DeviceQueue::Turn>> wait(const std::string& device, const std::string& what,
                                                  const std::function<bool()>& cancelled,
                                                  const std::function<void(unsigned)>& on_wait) {
    bool waited = false;
    auto turn = pool_->queue_.wait(device, caller_.what.empty() ? what : caller_.what, cancelled,
                                   [&](unsigned place) {
                                     waited = true;
                                     if (caller_.on_place) caller_.on_place(place);
                                     if (on_wait) on_wait(place);
                                   });
    if (waited && caller_.on_place) caller_.on_place(0);
    return turn;
  }
  void begin() {
    if (caller_.on_device) std::exchange(caller_.on_device, nullptr)();
  }
  static bool ran_out(const replay::Answer& answer) {
    return answer.outcome == replay::Outcome::out_of_memory ||
           std::any_of(answer.variants.begin(), answer.variants.end(),
                       [](const auto& v) { return v.outcome == replay::Outcome::out_of_memory; });
  }

  Pool* pool_;
  Caller caller_;
  const std::string fingerprint_;
  compile::Compiler compiler_;
  int holds_ = 0;
};

Pool::Pool(Limits limits, fs::path logs)
    : limits_([&] {
        if (limits.compilers == 0) limits.compilers = std::max(1u, std::thread::hardware_concurrency());
        return limits;
      }()),
      logs_(std::move(logs)) {}

Pool::~Pool() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  if (reaper_.joinable()) reaper_.join();
}

std::unique_ptr<ops::Engines> Pool::engines(Caller caller) {
  return std::make_unique<PooledEngines>(this, std::move(caller));
}

std::string Pool::device_of(const std::string& fingerprint, const replay::Request& request) {
  if (is_uuid(request.device)) return request.device;
  const auto captured_on = device_of_bundle(request.bundle);
  const std::string api = captured_on ? captured_on->api : std::string();
  const std::string own = captured_on ? key_of(*captured_on) : std::string();
  const std::lock_guard lock(mutex_);
  const auto known =
      devices_.find(fingerprint + "\n" + api + "\n" + (request.device.empty() ? own : request.device));
  if (known != devices_.end()) return known->second;
  // A name that nobody has used yet could mean any device.
  return request.device.empty() ? own : std::string();
}

void Pool::learn(const std::string& fingerprint, const replay::Request& request,
                 const replay::Answer& answer) {
  if (answer.device.name.empty() || is_uuid(request.device)) return;
  const auto captured_on = device_of_bundle(request.bundle);
  if (!captured_on) return;
  const std::lock_guard lock(mutex_);
  if (devices_.size() > 10000) devices_.clear();
  devices_[fingerprint + "\n" + captured_on->api + "\n" +
           (request.device.empty() ? key_of(*captured_on) : request.device)] = key_of(answer.device);
}

std::shared_ptr<Pool::Slot> Pool::take(const std::string& fingerprint, const std::string& device,
                                       const std::string& doing) {
  std::list<std::shared_ptr<Slot>> ended;  // outside the lock: a worker takes a while to leave
  std::unique_lock lock(mutex_);
  if (!reaper_.joinable()) reaper_ = std::thread(&Pool::reap, this);
  std::shared_ptr<Slot> best;
  const auto fits = [&](const Slot& slot) {  // one that has only listed devices has none yet
    return !slot.busy && slot.fingerprint == fingerprint &&
           (device.empty() || slot.device == device || slot.device.empty());
  };
  for (const auto& slot : slots_)
    if (fits(*slot) && (best == nullptr || std::pair(slot->device == device, slot->since) >
                                               std::pair(best->device == device, best->since)))
      best = slot;
  if (best == nullptr) {
    // Room for one more on its device; a request that may go anywhere makes room where it is tight.
    const auto on_device = [&] {
      return std::count_if(slots_.begin(), slots_.end(), [&](const auto& s) { return s->device == device; });
    };
    while (!device.empty() && on_device() >= static_cast<std::ptrdiff_t>(limits_.on_a_device)) {
      auto oldest = slots_.end();
      for (auto it = slots_.begin(); it != slots_.end(); ++it)
        if (!(*it)->busy && (*it)->device == device &&
            (oldest == slots_.end() || (*it)->since < (*oldest)->since))
          oldest = it;
      if (oldest == slots_.end()) break;
      ended.splice(ended.end(), slots_, oldest);
    }
    best = std::make_shared<Slot>();
    best->fingerprint = fingerprint;
    best->device = device;
    best->started_at = utc_now();
    (void)make_folders(logs_);
    const fs::path log = logs_ / "worker.log";
    std::error_code ec;
    if (fs::exists(log, ec) && fs::file_size(log, ec) >= limits_.log_cap)
      fs::rename(log, logs_ / "worker.log.1", ec);
    best->worker =
        std::make_unique<replay::Worker>(replay::Worker::Options{.log = log, .log_cap = limits_.log_cap});
    slots_.push_back(best);
  }
  best->busy = true;
  if (best->device.empty()) best->device = device;
  best->doing = doing;
  best->since = Clock::now();
  ++best->requests;
  lock.unlock();
  ended.clear();
  return best;
}

void Pool::give_back(const std::shared_ptr<Slot>& slot) {
  const bool alive = slot->worker->running();
  std::list<std::shared_ptr<Slot>> ended;
  {
    const std::lock_guard lock(mutex_);
    slot->busy = false;
    slot->doing.clear();
    slot->since = Clock::now();
    const auto end_if = [&](auto wanted) {
      for (auto it = slots_.begin(); it != slots_.end();) {
        const auto here = it++;
        if (wanted(**here)) ended.splice(ended.end(), slots_, here);
      }
    };
    if (!alive)
      end_if([&](const Slot& s) { return &s == slot.get(); });
    else  // one for each environment on each device: the newest
      end_if([&](const Slot& s) {
        return &s != slot.get() && !s.busy && s.fingerprint == slot->fingerprint && s.device == slot->device;
      });
    for (;;) {
      std::size_t count = 0;
      const Slot* oldest = nullptr;
      for (const auto& s : slots_) {
        if (s->device != slot->device) continue;
        ++count;
        if (!s->busy && (oldest == nullptr || s->since < oldest->since)) oldest = s.get();
      }
      if (count <= limits_.on_a_device || oldest == nullptr) break;
      end_if([&](const Slot& s) { return &s == oldest; });
    }
  }
  changed_.notify_all();
}

bool Pool::end_idle(const std::string& device) {
  std::list<std::shared_ptr<Slot>> ended;
  const std::lock_guard lock(mutex_);
  for (auto it = slots_.begin(); it != slots_.end();) {
    const auto here = it++;
    if (!(*here)->busy && (device.empty() || (*here)->device == device))
      ended.splice(ended.end(), slots_, here);
  }
  return !ended.empty();
}

Result<compile::Answer> Pool::compile(const std::string& fingerprint, const compile::Request& request,
                                      double limit_s, const std::function<bool()>& cancelled) {
  std::shared_ptr<CompilerSlot> slot;
  std::list<std::shared_ptr<CompilerSlot>> ended;
  {
    std::unique_lock lock(mutex_);
    if (!reaper_.joinable()) reaper_ = std::thread(&Pool::reap, this);
    const auto busy = [&] {
      return static_cast<std::size_t>(
          std::count_if(compilers_.begin(), compilers_.end(), [](const auto& c) { return c->busy; }));
    };
    while (busy() >= limits_.compilers) {
      lock.unlock();
      const bool stop = cancelled && cancelled();
      lock.lock();
      if (stop) return fail(ErrorCode::interrupted, "interrupted while it waited for a compiler");
      if (busy() >= limits_.compilers) changed_.wait_for(lock, std::chrono::milliseconds(20));
    }
    for (const auto& c : compilers_)
      if (!c->busy && c->fingerprint == fingerprint && (slot == nullptr || c->since > slot->since)) slot = c;
    if (slot == nullptr) {
      while (compilers_.size() >= limits_.compilers) {
        auto oldest = compilers_.end();
        for (auto it = compilers_.begin(); it != compilers_.end(); ++it)
          if (!(*it)->busy && (oldest == compilers_.end() || (*it)->since < (*oldest)->since)) oldest = it;
        if (oldest == compilers_.end()) break;
        ended.splice(ended.end(), compilers_, oldest);
      }
      slot = std::make_shared<CompilerSlot>();
      slot->fingerprint = fingerprint;
      slot->compiler = std::make_unique<compile::Compiler>();
      compilers_.push_back(slot);
    }
    slot->busy = true;
  }
  ended.clear();
  slot->compiler->stop_when(cancelled);
  auto answer = slot->compiler->ask(request, limit_s);
  slot->compiler->stop_when(nullptr);
  {
    const std::lock_guard lock(mutex_);
    slot->busy = false;
    slot->since = Clock::now();
  }
  changed_.notify_all();
  return answer;
}

void Pool::reap() {
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    double next = limits_.idle_s;
    std::list<std::shared_ptr<Slot>> workers;
    std::list<std::shared_ptr<CompilerSlot>> compilers;
    const auto sort_out = [&](auto& from, auto& ended) {
      for (auto it = from.begin(); it != from.end();) {
        const auto here = it++;
        if ((*here)->busy) continue;
        const double left = limits_.idle_s - seconds_since((*here)->since);
        if (left <= 0)
          ended.splice(ended.end(), from, here);
        else
          next = std::min(next, left);
      }
    };
    sort_out(slots_, workers);
    sort_out(compilers_, compilers);
    if (!workers.empty() || !compilers.empty()) {
      lock.unlock();
      workers.clear();
      compilers.clear();
      lock.lock();
      continue;
    }
    changed_.wait_for(lock, std::chrono::duration<double>(std::max(next, 0.01)));
  }
}

Json Pool::status() {
  Json workers = Json::array(), queue = Json::array();
  std::size_t at_work = 0, warm = 0;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& s : slots_) {
      Json w{{"pid", s->worker->pid()},
             {"device", s->device},
             {"state", s->busy ? "busy" : "idle"},
             {"for_s", seconds_since(s->since)},
             {"requests", s->requests},
             {"started_at", s->started_at},
             {"environment", s->fingerprint.substr(0, 8)}};
      if (s->busy) w["doing"] = s->doing;
      workers.push_back(std::move(w));
    }
    for (const auto& c : compilers_) ++(c->busy ? at_work : warm);
  }
  for (const DeviceQueue::Row& row : queue_.rows())
    queue.push_back(Json{{"device", row.key}, {"what", row.what}, {"place", row.place}});
  return Json{{"workers", std::move(workers)},
              {"compilers", Json{{"at_work", at_work}, {"warm", warm}}},
              {"queue", std::move(queue)}};
}

}  // namespace klab::hub
