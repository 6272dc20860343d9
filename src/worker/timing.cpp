// SPDX-License-Identifier: Apache-2.0
#include "worker/timing.h"

#include <algorithm>
#include <map>
#include <random>
#include <set>

#include <fmt/format.h>

namespace klab::worker {
namespace {

constexpr double kBatchNs = 50e6;  // a submission of about this: short enough to notice a hang or a budget
constexpr std::size_t kBatchSteps = 4096;
constexpr double kWarmUpNs = 30e6;
constexpr int kWarmUpLaunches = 3, kMostWarmUpLaunches = 100;
constexpr double kBatchTimeout = 60;  // seconds; a batch is expected to take 0.05
constexpr std::uint64_t kFlushWindow = 128ull << 20;

/// Klab's flush kernel over a buffer that is larger than the caches: its first half is written, then the second is
/// read, so that the caches hold nothing of the kernel's and no write of ours is still to come while it runs.
struct Flusher {
  std::vector<Memory> buffers;
  std::vector<Launch> launches;

  static Result<Flusher> create(Gpu& gpu, std::uint64_t bytes) {
    Flusher f;
    const std::uint64_t written = bytes / 8 * 4;
    for (std::uint64_t at = 0, size = 0; at < bytes; at += size) {
      size = std::min(kFlushWindow, (at < written ? written : bytes) - at) / 4 * 4;
      if (size == 0) break;
      KLAB_TRY(auto memory, gpu.allocate(size));
      const kernels::FlushPush push{static_cast<std::uint32_t>(size / 4),
                                    at < written ? 0x1234567u + static_cast<std::uint32_t>(at) : 0};
      const BuiltinBinding binding{memory.id(), 0, size};
      KLAB_TRY(auto launch, gpu.builtin("flush", std::span(&binding, 1), std::as_bytes(std::span(&push, 1)),
                                        {kernels::striding_grid(size), 1, 1}));
      f.buffers.push_back(std::move(memory));
      f.launches.push_back(std::move(launch));
    }
    return f;
  }
  void append(std::vector<gpu::Step>& steps) const {
    for (const Launch& l : launches) steps.push_back(gpu::Step::launch_of(l.id(), false));
  }
};

/// What both ways of timing share: images in turn, hashes kept in a log that is read after the batch.
class Runner {
 public:
  Runner(const TimingSetup& setup, std::vector<Timed>& timed, const Deadline& deadline)
      : setup_(setup), timed_(timed), deadline_(deadline), random_(setup.seed) {}

  Status prepare(std::size_t total) {
    KLAB_TRY(flusher_, Flusher::create(setup_.loaded->gpu(), setup_.flush_bytes));
    total_ = total;
    if (setup_.rotation != nullptr) {
      // Another run may have left its results on the copies.
      place_ = setup_.rotation->size() - 1;
      for (std::size_t place = 1; place < setup_.rotation->size(); ++place) setup_.rotation->restore(steps_, place);
      restore_image();
    }
    for (const Timed& t : timed_)
      if (t.check != nullptr) entry_bytes_ = std::max(entry_bytes_, t.check->entry_bytes());
    if (entry_bytes_ == 0) return {};
    entries_ = std::clamp<std::size_t>(kLogBytes / entry_bytes_, 1, kLogEntries);
    KLAB_TRY(log_, setup_.loaded->gpu().allocate(entry_bytes_ * entries_));
    return {};
  }

  /// Whose turn it is starts anew. Of a rotation what is put back lies half a round ahead, so that caches have forgotten it by then.
  void restore() {
    if (setup_.rotation != nullptr) {
      const std::size_t size = setup_.rotation->size();
      place_ = (place_ + 1) % size;
      if (const std::size_t ahead = (place_ + size / 2) % size; ahead != 0) {
        setup_.rotation->restore(steps_, ahead);
        return;
      }
    }
    restore_image();
  }
  void restore_image() {
    const std::size_t images = setup_.restorer->images();
    const std::size_t first = std::min(setup_.first_image, images - 1);
    setup_.restorer->append(steps_, first + turn_++ % (images - first));
  }
  void flush() { flusher_.append(steps_); }

  /// What the launch needs of its own is put there before caches are flushed.
  void enter(std::uint32_t which) { variant(which).enter(steps_); }
  /// `last`: of those back to back.
  void launch(std::uint32_t which, bool checked, bool last = true) {
    steps_.push_back(gpu::Step::launch_of(variant(which).launch.id(), true));
    launches_.push_back(which);
    if (last) variant(which).leave(steps_);
    checked = checked && place_ == 0;
    const OutcomeCheck* const check = timed_[which].check;
    if (checked && check != nullptr && check->entry_bytes() != 0) {
      const std::uint64_t at = checks_.size() * entry_bytes_;
      check->append(steps_, log_.id(), at);
      checks_.push_back(
          {which, timed_[which].samples_ns.size() + std::count(launches_.begin(), launches_.end(), which), at});
    }
  }

  std::vector<gpu::Step>& steps() { return steps_; }

  bool full(double launch_wall_ns) const {
    return steps_.size() >= kBatchSteps || checks_.size() >= entries_ ||
           static_cast<double>(launches_.size()) * launch_wall_ns >= kBatchNs;
  }

  /// Submits, collects times, checks logged hashes. `keep`: false for warm-up.
  Result<double> submit(bool keep) {
    if (steps_.empty()) return 0.0;
    KLAB_TRY_VOID(deadline_.check("timing"));
    KLAB_TRY(const auto result, setup_.loaded->gpu().run(steps_, deadline_.timeout_ns(kBatchTimeout)));
    KLAB_CHECK(result.launch_ns.size() == launches_.size());
    check_times(result);
    if (keep)
      for (std::size_t i = 0; i < launches_.size(); ++i)
        timed_[launches_[i]].samples_ns.push_back(result.launch_ns[i]);
    KLAB_TRY_VOID(check_log());
    const double per_launch =
        result.wall_ns / static_cast<double>(std::max<std::size_t>(1, launches_.size()));
    done_ += keep ? launches_.size() : 0;
    steps_.clear();
    launches_.clear();
    checks_.clear();
    if (keep && total_ != 0 && setup_.progress) setup_.progress(done_, total_);
    return per_launch;
  }

  /// Everything that is not restored must be as captured; what is not is put back and named.
  Status check_rest(TimingFacts& facts) {
    KLAB_TRY(const auto changed, setup_.loaded->changed(deadline_));
    for (const ChunkId id : changed) {
      if (contains(setup_.restored, id)) continue;
      const auto& c = setup_.loaded->chunk(id);
      if (facts.outside.empty())
        facts.outside =
            fmt::format("a timed launch wrote outside what was seen to be written: {}, in this chunk",
                        setup_.loaded->place_name(c.region, c.offset));
      KLAB_TRY_VOID(setup_.loaded->reload({id}));
    }
    return {};
  }

  /// The device cannot have worked longer than the host waited for it, nor in no time at all.
  void check_times(const gpu::BatchResult& result) {
    constexpr double kSlack = 1.02, kSlackNs = 100e3;  // two clocks
    double sum = 0;
    bool none = false;
    for (const double ns : result.launch_ns) {
      sum += ns;
      none = none || !(ns >= 0);
    }
    if (!inconsistent_.empty() || (sum <= result.wall_ns * kSlack + kSlackNs && !none)) return;
    inconsistent_ = fmt::format(
        "the times of {} launches add up to {:.3f} ms on the device, and the host waited {:.3f} ms for them",
        result.launch_ns.size(), sum / 1e6, result.wall_ns / 1e6);
  }
  const std::string& inconsistent() const { return inconsistent_; }

  std::mt19937& random() { return random_; }

 private:
  const Variant& variant(std::uint32_t which) const {
    return place_ == 0 ? *timed_[which].variant : setup_.rotation->variant(place_, which);
  }

  static constexpr std::size_t kLogEntries = 256;
  static constexpr std::uint64_t kLogBytes = 8u << 20;
  struct Check {
    std::uint32_t which = 0;
    std::size_t number = 0;  // of this variant's launches, from 1
    std::uint64_t at = 0;    // bytes into the log
  };

  Status check_log() {
    if (checks_.empty()) return {};
    const Check& end = checks_.back();
    std::vector<std::byte> log(end.at + timed_[end.which].check->entry_bytes());
    KLAB_TRY_VOID(setup_.loaded->gpu()->download(log_.id(), 0, log));
    for (const Check& one : checks_) {
      Timed& t = timed_[one.which];
      ++t.launches_checked;
      const auto wrong = t.check->wrong(std::span(log).subspan(one.at, t.check->entry_bytes()));
      if (!wrong || !t.wrong_launch.empty()) continue;
      const auto& c = setup_.loaded->chunk(t.check->chunks()[*wrong]);
      t.wrong_launch = fmt::format("timed launch {} gave a wrong result: {} differs in the chunk at offset {}",
                                   one.number, setup_.loaded->region_name(c.region), c.offset);
    }
    return {};
  }

  const TimingSetup& setup_;
  std::vector<Timed>& timed_;
  const Deadline& deadline_;
  std::mt19937 random_;
  Flusher flusher_;
  std::uint64_t entry_bytes_ = 0;
  std::size_t entries_ = kLogEntries;
  Memory log_;
  std::vector<gpu::Step> steps_;
  std::vector<std::uint32_t> launches_;
  std::vector<Check> checks_;
  std::string inconsistent_;
  std::size_t place_ = 0;  // of the rotation, that the next launch is on
  std::size_t turn_ = 0, done_ = 0, total_ = 0;
};

/// Which launches of each variant are checked, when not all are.
std::vector<bool> pick_checks(const std::vector<std::uint32_t>& order, bool every, std::mt19937& random) {
  std::vector<bool> picked(order.size(), every);
  if (every) return picked;
  std::map<std::uint32_t, std::vector<std::size_t>> of;
  for (std::size_t i = 0; i < order.size(); ++i) of[order[i]].push_back(i);
  for (auto& [which, at] : of) {
    picked[at.front()] = picked[at.back()] = true;
    for (int k = 0; k < 3; ++k) picked[at[random() % at.size()]] = true;
  }
  return picked;
}

/// Launches until clocks, caches and lazy compilers have settled a little. Returns a launch's wall time.
Result<double> warm_up(Runner& runner, std::size_t variants, double warmed_ns) {
  double spent = warmed_ns, last = 0;
  for (int n = 0; n < kMostWarmUpLaunches && (n < kWarmUpLaunches || spent < kWarmUpNs); ++n) {
    double worst = 0;
    for (std::uint32_t which = 0; which < variants; ++which) {
      runner.restore();
      runner.enter(which);
      runner.flush();
      runner.launch(which, false);
      KLAB_TRY(const double wall, runner.submit(false));
      worst = std::max(worst, wall);
      spent += wall;
    }
    last = worst;
  }
  return last;
}

}  // namespace

Result<TimingFacts> time_isolated(const TimingSetup& setup, std::vector<Timed>& timed,
                                  const std::vector<std::uint32_t>& order, const Deadline& deadline) {
  TimingFacts facts;
  Runner runner(setup, timed, deadline);
  KLAB_TRY_VOID(runner.prepare(order.size()));
  KLAB_TRY(double wall, warm_up(runner, timed.size(), setup.warmed_ns));
  const auto checked =
      pick_checks(order, setup.every_launch, runner.random());
  std::set<std::size_t> whole;  // after these launches everything is checked
  for (int k = 0; k < 3; ++k) whole.insert(runner.random()() % order.size());
  for (std::size_t i = 0; i < order.size(); ++i) {
    runner.restore();
    runner.enter(order[i]);
    runner.flush();
    runner.launch(order[i], checked[i]);
    const bool look = whole.count(i) != 0 || i + 1 == order.size();
    if (!look && !runner.full(wall)) continue;
    KLAB_TRY(const double now, runner.submit(true));
    wall = std::max(wall / 2, now);
    if (look) KLAB_TRY_VOID(runner.check_rest(facts));
  }
  facts.inconsistent = runner.inconsistent();
  return facts;
}

Result<TimingFacts> time_sustained(const TimingSetup& setup, std::vector<Timed>& timed,
                                   const std::vector<std::uint32_t>& order, const Deadline& deadline) {
  TimingFacts facts;
  Runner runner(setup, timed, deadline);
  KLAB_TRY_VOID(runner.prepare(order.size()));
  KLAB_TRY(double wall, warm_up(runner, timed.size(), setup.warmed_ns));
  for (std::size_t i = 0; i < order.size(); ++i) {
    const bool starts = i == 0 || order[i] != order[i - 1];
    const bool ends = i + 1 == order.size() || order[i + 1] != order[i];
    if (starts) {
      runner.restore();
      runner.enter(order[i]);
    }
    runner.launch(order[i], ends, ends);
    if (!ends && !runner.full(wall)) continue;
    KLAB_TRY(const double now, runner.submit(true));
    wall = std::max(wall / 2, now);
  }
  KLAB_TRY_VOID(runner.check_rest(facts));
  facts.inconsistent = runner.inconsistent();
  return facts;
}

struct LetterTimer::Impl {
  Impl(const TimingSetup& s, std::vector<Timed>& t, bool back_to_back, ClockMeter* meter, const Deadline& d)
      : setup(s), timed(t), sustained(back_to_back), clock(meter), runner(s, t, d) {}
  const TimingSetup& setup;
  std::vector<Timed>& timed;
  bool sustained;
  ClockMeter* clock;
  Runner runner;
  double wall = 0;  // of a launch, with what belongs to it
};

LetterTimer::LetterTimer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
LetterTimer::LetterTimer(LetterTimer&&) noexcept = default;
LetterTimer::~LetterTimer() = default;

Result<LetterTimer> LetterTimer::create(const TimingSetup& setup, std::vector<Timed>& timed, bool sustained,
                                        ClockMeter* clock, const Deadline& deadline) {
  auto impl = std::make_unique<Impl>(setup, timed, sustained, clock, deadline);
  KLAB_TRY_VOID(impl->runner.prepare(0));
  return LetterTimer(std::move(impl));
}

Result<LetterTimer::Letter> LetterTimer::take(std::uint32_t which, std::uint32_t launches) {
  Impl& i = *impl_;
  Letter letter{.first = i.timed[which].samples_ns.size(), .count = launches};
  if (i.clock != nullptr) i.clock->append(i.runner.steps(), 0);
  double slowest = 0;
  for (std::uint32_t k = 0; k < launches; ++k) {
    const bool last = k + 1 == launches;
    if (!i.sustained || k == 0) {
      i.runner.restore();
      i.runner.enter(which);
    }
    if (!i.sustained) i.runner.flush();
    i.runner.launch(which, !i.sustained || last, !i.sustained || last);
    if (!last && !i.runner.full(i.wall)) continue;
    if (last && i.clock != nullptr) i.clock->append(i.runner.steps(), 1);
    KLAB_TRY(const double per_launch, i.runner.submit(true));
    slowest = std::max(slowest, per_launch);
    letter.wall_ns = per_launch * launches;
  }
  i.wall = slowest;
  if (i.clock != nullptr) {
    KLAB_TRY(letter.clock_mhz, i.clock->read());
  }
  return letter;
}

Result<TimingFacts> LetterTimer::finish() {
  TimingFacts facts;
  KLAB_TRY_VOID(impl_->runner.check_rest(facts));
  facts.inconsistent = impl_->runner.inconsistent();
  return facts;
}

Result<gpu::Counters> count_launch(const TimingSetup& setup, const Variant& variant,
                                   std::span<const std::string> names, const Deadline& deadline) {
  KLAB_TRY(const auto flusher, Flusher::create(setup.loaded->gpu(), setup.flush_bytes));
  std::vector<gpu::Step> before;
  setup.restorer->append(before, std::min(setup.first_image, setup.restorer->images() - 1));
  variant.enter(before);
  flusher.append(before);
  return setup.loaded->gpu().count(variant.launch.id(), before, names, deadline.timeout_ns(kBatchTimeout));
}

Result<Throughput> measure_throughput(Loaded& loaded, const Variant& variant, double launch_ns, const Deadline& deadline) {
  constexpr double kBatch = 1.5e6;  // nanoseconds
  constexpr int kRounds = 2;
  Throughput best;
  best.launches = static_cast<std::uint32_t>(std::clamp(kBatch / std::max(1.0, launch_ns), 2.0, 1000.0));
  std::vector<gpu::Step> steps;
  variant.enter(steps);
  for (std::uint32_t i = 0; i < best.launches; ++i) steps.push_back(gpu::Step::launch_of(variant.launch.id(), false));
  variant.leave(steps);
  for (int round = 0; round < kRounds; ++round) {
    KLAB_TRY(const auto result, loaded.gpu().run(steps, deadline.timeout_ns(kBatchTimeout)));
    const double per_s = best.launches / std::max(1.0, result.wall_ns) * 1e9;
    if (per_s <= best.per_s) continue;
    best.per_s = per_s;
    best.host_us = result.submit_ns / best.launches * 1e-3;
  }
  return best;
}

std::vector<std::uint32_t> interleave(std::uint32_t variants, std::uint32_t iterations, std::uint32_t run,
                                      std::uint32_t seed) {
  if (variants == 1) return std::vector<std::uint32_t>(iterations, 0);
  KLAB_CHECK(variants == 2 && run > 0);
  std::vector<std::uint32_t> order;
  std::mt19937 random(seed);
  const std::uint32_t blocks = (iterations + 2 * run - 1) / (2 * run);
  // Balanced: as many ABBA as BAAB (one more of either when odd), in random order.
  std::vector<std::uint32_t> first;
  for (std::uint32_t b = 0; b < blocks; ++b) first.push_back((b + seed) % 2);
  std::shuffle(first.begin(), first.end(), random);
  std::uint32_t left[2] = {iterations, iterations};
  for (const std::uint32_t a : first)
    for (const std::uint32_t letter : {a, 1 - a, 1 - a, a})
      for (std::uint32_t k = 0; k < run && left[letter] > 0; ++k, --left[letter]) order.push_back(letter);
  return order;
}

}  // namespace klab::worker
