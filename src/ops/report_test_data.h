// SPDX-License-Identifier: Apache-2.0
// For tests and fuzzing: a comparison as a worker would answer it, of times that are drawn, concluded by
// measure/.
#pragma once
#include <cmath>
#include <random>

#include "measure/comparison.h"
#include "ops/report.h"

namespace klab::ops::testing {

struct Drawn {
  double ratio = 0.9;  // B's time over A's
  std::uint32_t placements = 10, blocks = 6, launches = 12;
  bool clocks = true;            // NVML was there
  std::uint32_t drop_every = 0;  // every n-th block is dropped
  double time_ns = 84000;
  std::string kernel = "void gemm<float, 4>(float const*, float*, int)";
};

inline ReportParts drawn_parts(const Drawn& d = {}) {
  std::mt19937_64 random(7);
  const auto noise = [&](double sd) {
    double sum = 0;
    for (int i = 0; i < 12; ++i) sum += static_cast<double>(random() >> 11) * 0x1p-53;
    return 1 + sd * (sum - 6);
  };
  measure::Comparison c;
  c.design.floor = 0.003;
  c.design.looks = measure::looks_for(d.placements);
  std::vector<double> samples[2];
  Json log = Json::array();
  constexpr double kStep = 32;
  const auto order = measure::balanced_order(d.placements * d.blocks, 1);
  double now = 1.3;
  for (std::uint32_t p = 0; p < d.placements; ++p) {
    const double of_placement = noise(0.002);
    now += 0.12;
    for (std::uint32_t k = 0; k < d.blocks; ++k) {
      const std::uint32_t n = p * d.blocks + k;
      measure::Block b{.placement = p, .starts_with_b = order[n], .at_s = now};
      const double clock = std::round(1980 - 25 * now + 8 * (noise(1) - 1));
      std::size_t of[2] = {0, 0};
      for (const bool second : {false, true, true, false}) {
        const bool is_b = second != b.starts_with_b;
        measure::Letter& l = (is_b ? b.b : b.a)[of[is_b]++];
        std::vector<double> times;
        for (std::uint32_t i = 0; i < d.launches; ++i) {
          double t = d.time_ns * noise(0.004) * 1980 / clock * (is_b ? d.ratio * of_placement : 1);
          if (random() % 97 == 0) t *= 1.09;
          times.push_back(std::round(t / kStep) * kStep);
        }
        l = {.time_ns = measure::grouped_median(times, kStep), .launches = d.launches};
        if (d.clocks) l.clock_mhz = clock;
        samples[is_b].insert(samples[is_b].end(), times.begin(), times.end());
      }
      if (d.drop_every != 0 && n % d.drop_every == 0) b.dropped = "thermal slowdown";
      if (d.clocks) {
        Json sample{{"at_s", now},
                    {"sm_mhz", clock},
                    {"memory_mhz", 3201},
                    {"power_w", 520 + 40 * now},
                    {"temperature_c", 41 + 4 * now}};
        if (!b.dropped.empty()) sample["reasons"] = {b.dropped};
        log.push_back(std::move(sample));
      }
      c.blocks.push_back(b);
      now += 0.011;
    }
  }
  c.conclusion = measure::conclude(c.design, c.blocks, true);

  Json comparison = c;
  comparison.update(
      {{"budget_s", 10},
       {"spent_s", {{"warm_up", 1.3}, {"placing", 1.1}, {"all", now}}},
       {"launches_per_letter", d.launches},
       {"timer_step_ns", kStep},
       {"warm_up", {{"seconds", 1.3}, {"settled", true}, {"windows", 13}}},
       {"floor",
        {{"value", c.design.floor},
         {"class", "10us-100us cold"},
         {"measured", false},
         {"at", "2026-01-31T12:00:00Z"}}},
       {"placement", "physical pages and what lies before them; virtual addresses are the captured ones"},
       {"clocks", d.clocks ? "observed by nvml" : "not observed"}});
  comparison["environment"] =
      d.clocks ? Json{{"source", "nvml"},
                      {"samples", log},
                      {"limits", {{"driver", "580.95"}, {"power_limit_w", 700}}}}
               : Json{{"source", "none"}, {"why", "libnvidia-ml.so.1 is not there"}, {"samples", log}};
  replay::Answer answer;
  answer.device = {.api = "cuda",
                   .name = "NVIDIA H200",
                   .driver = "NVIDIA",
                   .driver_version = "580.95",
                   .uuid = "0011",
                   .type = "discrete"};
  answer.comparison = std::move(comparison);
  answer.address_mode = replay::AddressMode::exact;
  answer.notes = {"replayed on another device than the captured one"};
  answer.variants.resize(2);
  for (int i = 0; i < 2; ++i) {
    replay::VariantAnswer& v = answer.variants[static_cast<std::size_t>(i)];
    v.label = i == 0 ? "baseline" : "wide";
    v.code_hash = i == 0 ? "00aa" : "00bb";
    v.samples_ns = samples[i];
    v.resources = {{"vector_registers", 40 + 16 * i}};
    v.validation.correctness = validate::Correctness::correct;
    v.validation.reason = "bitwise equal in 200 checked launches on 2 inputs";
    v.validation.inputs = {{"captured", "the captured input", "agrees", true}};
    v.validation.oracle = {{"no-op", true}, {"zeros", true}};
  }
  ReportParts parts;
  parts.row = {.id = 7, .bundle = "b0", .variant = "v1", .correctness = validate::Correctness::correct};
  from_string(to_string(c.conclusion.verdict), parts.row.speed);
  parts.row.reason = answer.variants[1].validation.reason;
  parts.row.ratio = c.conclusion.interval.ratio;
  parts.row.detail = answer;
  parts.row.at = "2026-02-01T10:00:00Z";
  parts.bundle = {
      .id = "b0", .path = "/somewhere/gemm.klab", .kernel = d.kernel, .made_at = "2026-01-31T12:00:00Z"};
  parts.b = session::VariantRow{.id = "v1",
                                .bundle = "b0",
                                .name = "wide",
                                .language = "cuda",
                                .source_file = "/home/someone/gemm.cu",
                                .source_hash = "cafe",
                                .code_hash = "00bb",
                                .compiler = "NVRTC 13.0"};
  parts.b->options.include_folders = {"/home/someone/include"};
  parts.dispatch = bundle::Dispatch{
      .name = d.kernel, .entry_point = "gemm", .grid = {132, 4, 1}, .block = {256, 1, 1}, .nth = 3};
  return parts;
}

}  // namespace klab::ops::testing
