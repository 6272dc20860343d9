// SPDX-License-Identifier: Apache-2.0
#include "serve/pump.h"

#include <chrono>

#include <fmt/format.h>

namespace klab::serve {
namespace {

constexpr int kMostMissed = 5000;
constexpr double kWait = 5;
constexpr auto kJobsEvery = std::chrono::milliseconds(250);
constexpr auto kAfterFailure = std::chrono::milliseconds(500);

}  // namespace

std::string Pump::frame(std::string_view event, const Json& data, std::int64_t id) {
  return fmt::format("{}event: {}\ndata: {}\n\n", id > 0 ? fmt::format("id: {}\n", id) : "", event,
                     data.dump(-1, ' ', false, Json::error_handler_t::replace));
}

Pump::Pump(Call call)
    : call_(std::move(call)), events_thread_([this] { read_events(); }), jobs_thread_([this] { read_jobs(); }) {}

Pump::~Pump() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  events_thread_.join();
  jobs_thread_.join();
}

std::int64_t Pump::newest() {
  const auto answer = call_("events.wait", {{"after", -1}}, {});
  return answer ? answer->value("last", std::int64_t{0}) : 0;
}

void Pump::tell(const std::string& frame) {
  std::erase_if(listeners_, [&](const Heard& heard) { return !heard.listener(frame); });
}

void Pump::listen(std::int64_t after, Listener listener) {
  // What happens between the last page of these and the first of the reader's is seen by the reader: it starts at
  // the oldest `last` of all listeners.
  int missed = 0;
  for (;;) {
    const auto answer = call_("events.wait", {{"after", after}, {"limit", 1000}}, {});
    if (!answer || answer->at("events").empty()) break;
    for (const Json& event : answer->at("events")) {
      after = event.at("id").get<std::int64_t>();
      if (!listener(frame("event", event, after))) return;
      ++missed;
    }
    if (missed >= kMostMissed) {
      after = newest();
      if (!listener(frame("reset", Json::object(), after))) return;
      break;
    }
  }
  const std::lock_guard lock(mutex_);
  if (!jobs_.empty() && !listener(jobs_)) return;
  listeners_.push_back({std::move(listener), after});
  changed_.notify_all();
}

bool Pump::wanted(std::unique_lock<std::mutex>& lock) {
  changed_.wait(lock, [&] { return stopping_ || !listeners_.empty(); });
  return !stopping_;
}

void Pump::read_events() {
  const auto stopped = [this] { return stopping_.load(); };
  for (;;) {
    std::int64_t after = 0;
    {
      std::unique_lock lock(mutex_);
      if (!wanted(lock)) return;
      after = listeners_.front().last;
      for (const Heard& heard : listeners_) after = std::min(after, heard.last);
    }
    const auto answer = call_("events.wait", {{"after", after}, {"wait_s", kWait}, {"limit", 1000}}, stopped);
    std::unique_lock lock(mutex_);
    if (!answer) {  // the hub has left, and is started again by the next call
      changed_.wait_for(lock, kAfterFailure, stopped);
      continue;
    }
    for (const Json& event : answer->at("events")) {
      const auto id = event.at("id").get<std::int64_t>();
      const std::string text = frame("event", event, id);
      std::erase_if(listeners_, [&](Heard& heard) {
        if (heard.last >= id) return false;
        heard.last = id;
        return !heard.listener(text);
      });
    }
  }
}

void Pump::read_jobs() {
  for (;;) {
    {
      std::unique_lock lock(mutex_);
      if (!wanted(lock)) return;
    }
    const auto answer = call_("hub.status", Json::object(), {});
    std::unique_lock lock(mutex_);
    const std::string text = frame("jobs", {{"jobs", answer ? answer->value("jobs", Json::array()) : Json::array()}});
    if (text != jobs_) tell(jobs_ = text);
    changed_.wait_for(lock, kJobsEvery, [this] { return stopping_.load(); });
  }
}

}  // namespace klab::serve
