// SPDX-License-Identifier: Apache-2.0
// The real klab-worker on the fake device: every verb, every verdict, every scripted fault.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "worker/fake_worker.h"

namespace klab::worker {
namespace {

using namespace testing;
using bundle::ProofState;
using replay::AddressMode;
using replay::Answer;
using replay::CacheState;
using replay::Mode;
using replay::Outcome;
using replay::Request;
using ::testing::HasSubstr;
using validate::Correctness;

TEST_F(FakeWorker, proves_a_capture_that_is_self_contained) {
  write(scale_bundle(kMany));
  const Answer a = ask(request("proof"));
  EXPECT_EQ(a.outcome, Outcome::ok);
  EXPECT_EQ(a.proof.state, ProofState::equal) << a.proof.detail;
  EXPECT_EQ(a.proof.replays, 1u);
}

TEST_F(FakeWorker, proof_names_the_first_byte_that_never_agrees) {
  TestBundle b = scale_bundle(kMany);
  b.regions[1].post[1200000 - 4] ^= std::byte{1};
  write(b);
  const Answer a = ask(request("proof"));
  EXPECT_EQ(a.proof.state, ProofState::differs);
  EXPECT_EQ(a.proof.differing_bytes, 1u);
  EXPECT_THAT(a.proof.detail, HasSubstr("region 1 (y) at offset 1199996"));
  EXPECT_THAT(a.proof.detail, HasSubstr("--scope all"));
}

TEST_F(FakeWorker, proof_names_what_varies_from_run_to_run) {
  TestBundle b = scale_bundle();
  b.code = bytes_of(program("racy"));
  write(b);
  const Answer a = ask(request("proof"));
  EXPECT_EQ(a.proof.state, ProofState::nondeterministic) << a.proof.detail;
  EXPECT_EQ(a.proof.differing_bytes, 0u);
  // Every 64th element has four random bits: 8 runs miss one in 16^7.
  EXPECT_EQ(a.proof.varying_bytes, (kElements + 63) / 64 * 4);
  ASSERT_GT(a.proof.varying.size(), 1u);
  EXPECT_EQ(a.proof.varying[1].offset, 256u);
  EXPECT_EQ(a.proof.varying[1].size, 4u);
}

TEST_F(FakeWorker, nothing_is_correct_when_the_baseline_does_not_give_the_captured_outcome) {
  TestBundle b = scale_bundle();
  b.regions[1].post[400] ^= std::byte{1};
  write(b);
  Answer a = ask(request("replay", {{}}));
  EXPECT_EQ(a.variants.at(0).validation.correctness, Correctness::not_verified);
  EXPECT_THAT(a.variants[0].validation.reason, HasSubstr("differ from the captured outcome"));
  b.device.driver_version = "0";  // captured with another driver: noted only
  write(b);
  a = ask(request("replay", {{}}));
  EXPECT_EQ(a.variants.at(0).validation.correctness, Correctness::correct);
  EXPECT_THAT(a.variants[0].validation.reason, HasSubstr("differ from the captured outcome"));
  EXPECT_THAT(a.notes, ::testing::Contains("captured with driver 0, replayed with 1"));
}

TEST_F(FakeWorker, what_the_proof_saw_vary_stays_masked) {
  TestBundle b = scale_bundle();
  b.proof.state = ProofState::nondeterministic;
  b.proof.varying = {{1, 256, 8}};
  write(b);
  const Answer a = ask(request("replay", {{}}));
  EXPECT_EQ(a.variants.at(0).validation.correctness, Correctness::not_verified);
  EXPECT_EQ(a.variants[0].validation.masked_bytes, 8u);
}

TEST_F(FakeWorker, replays_the_baseline_and_restores_only_what_it_writes) {
  write(scale_bundle());
  const Answer a = ask(request("replay", {{}}));
  ASSERT_EQ(a.outcome, Outcome::ok) << a.error->what;
  ASSERT_EQ(a.variants.size(), 1u);
  const auto& v = a.variants[0];
  EXPECT_EQ(v.samples_ns, std::vector<double>(20, 1000.0));
  EXPECT_EQ(a.captured_bytes, 2 * kElements * 4);
  EXPECT_EQ(v.restored_bytes_per_iteration, kElements * 4);
  EXPECT_EQ(v.written_bytes, kElements * 4);
  EXPECT_EQ(v.validation.correctness, Correctness::correct) << v.validation.reason;
  EXPECT_GE(v.validation.launches_checked, 8u);
  EXPECT_TRUE(v.validation.oracle.at("no-op"));
  EXPECT_TRUE(v.validation.oracle.at("zeros"));
  EXPECT_TRUE(v.validation.oracle.at("ones"));
  EXPECT_TRUE(v.validation.oracle.at("shuffle"));
  EXPECT_TRUE(v.validation.oracle.at("copy of an input"));
  EXPECT_EQ(v.validation.inputs_tried, 3u);
  EXPECT_EQ(v.code_hash.size(), 32u);
  EXPECT_EQ(a.ran, a.asked);
  EXPECT_EQ(a.address_mode, AddressMode::none);
}

TEST_F(FakeWorker, an_in_place_kernel_starts_each_launch_from_the_capture) {
  write(saxpy_bundle());
  const Answer a = ask(request("replay", {{}}));
  ASSERT_EQ(a.outcome, Outcome::ok) << a.error->what;
  EXPECT_EQ(a.variants[0].validation.correctness, Correctness::correct) << a.variants[0].validation.reason;
}

TEST_F(FakeWorker, rejects_variants_that_are_wrong_in_one_way_each) {
  write(scale_bundle());
  for (const char* kernel :
       {"noop", "scale_half", "scale_skip_first", "scale_one_bit", "zeros", "copy", "scale_lazy"}) {
    const Answer a = replay_variant(program(kernel));
    const auto& v = a.variants.at(0).validation;
    EXPECT_EQ(v.correctness, Correctness::incorrect) << kernel << ": " << v.reason;
    ASSERT_FALSE(v.differences.empty()) << kernel;
    EXPECT_EQ(v.differences[0].region, 1u);
    EXPECT_GT(v.differing_bytes, 0u);
    EXPECT_NE(v.differences[0].expected, v.differences[0].actual);
  }
}

TEST_F(FakeWorker, rejects_stale_output_when_the_capture_already_held_the_answer) {
  // The program ran the kernel twice: pre-state and post-state are equal, and doing nothing looks right.
  TestBundle b = scale_bundle();
  b.regions[1].pre = b.regions[1].post;
  write(b);
  EXPECT_EQ(ask(request("replay", {{}})).variants.at(0).validation.correctness, Correctness::correct);
  for (const char* kernel : {"noop", "scale_half", "scale_lazy"})
    EXPECT_EQ(replay_variant(program(kernel)).variants.at(0).validation.correctness, Correctness::incorrect)
        << kernel;
}

TEST_F(FakeWorker, a_write_outside_what_the_baseline_writes_is_incorrect) {
  write(scale_bundle(kMany));
  const Answer a = replay_variant(program("scale_stray"));
  const auto& v = a.variants.at(0).validation;
  EXPECT_EQ(v.correctness, Correctness::incorrect);
  EXPECT_THAT(v.reason, HasSubstr("outside what the baseline writes"));
  EXPECT_THAT(v.reason, HasSubstr("region 0 (x) at offset 1199996"));
  // The capture is put back whole: the baseline is right afterwards.
  EXPECT_EQ(ask(request("replay", {{}})).variants.at(0).validation.correctness, Correctness::correct);
}

TEST_F(FakeWorker, doing_nothing_for_an_idempotent_kernel_is_caught_on_mutated_inputs) {
  write(clamp_bundle());
  const Answer right = ask(request("replay", {{}}));
  EXPECT_EQ(right.variants.at(0).validation.correctness, Correctness::correct)
      << right.variants[0].validation.reason;
  EXPECT_GT(right.variants[0].validation.inputs_tried, 1u);
  const Answer wrong = replay_variant(program("noop"));
  EXPECT_EQ(wrong.variants.at(0).validation.correctness, Correctness::incorrect)
      << wrong.variants[0].validation.reason;
  EXPECT_THAT(wrong.variants[0].validation.reason, HasSubstr("seed"));
}

TEST_F(FakeWorker, says_not_verified_when_no_input_can_tell_nothing_from_right) {
  TestBundle b = clamp_bundle();
  b.code = bytes_of(program("noop"));
  write(b);
  const Answer a = ask(request("replay", {{}}));
  EXPECT_EQ(a.variants.at(0).validation.correctness, Correctness::not_verified);
  EXPECT_FALSE(a.variants[0].validation.reason.empty());
}

TEST_F(FakeWorker, conditional_writers_keep_their_inputs) {
  std::vector<std::uint32_t> x(5000), y(5000), after(5000);
  for (std::uint32_t i = 0; i < x.size(); ++i) {
    x[i] = i + 1;
    y[i] = i % 3 == 0 ? 0 : 7 * i;
    after[i] = y[i] == 0 ? x[i] : y[i];
  }
  TestBundle b;
  b.regions = {{"x", bytes_of(x), bytes_of(x)}, {"y", bytes_of(y), bytes_of(after)}};
  b.code = bytes_of(program("conditional"));
  write(b);
  EXPECT_EQ(ask(request("replay", {{}})).variants.at(0).validation.correctness, Correctness::correct);
  EXPECT_EQ(replay_variant(program("noop")).variants.at(0).validation.correctness, Correctness::incorrect);
  EXPECT_EQ(replay_variant(program("copy")).variants.at(0).validation.correctness, Correctness::incorrect);
  Request r = request("replay", {{}});
  r.conditions.mode = Mode::sustained;
  EXPECT_EQ(ask(r).outcome, Outcome::refused);
}

TEST_F(FakeWorker, nondeterministic_elements_are_masked_and_never_called_correct) {
  TestBundle b = scale_bundle();
  b.code = bytes_of(program("racy"));
  write(b);
  const Answer a = ask(request("replay", {{}}));
  const auto& v = a.variants.at(0).validation;
  EXPECT_EQ(v.correctness, Correctness::not_verified);
  EXPECT_EQ(v.masked_bytes, (kElements + 63) / 64 * 4);
  EXPECT_THAT(v.reason, HasSubstr("94 of 6000 elements vary"));
  EXPECT_EQ(replay_variant(program("scale_half")).variants.at(0).validation.correctness,
            Correctness::incorrect);
}

TEST_F(FakeWorker, a_kernel_that_faults_on_poison_is_still_validated) {
  std::vector<std::uint32_t> in(1000), index(4000), out(4000);
  for (std::uint32_t i = 0; i < in.size(); ++i) in[i] = i * i;
  for (std::uint32_t i = 0; i < index.size(); ++i) index[i] = (i * 7) % 1000;
  for (std::uint32_t i = 0; i < out.size(); ++i) out[i] = in[index[i]];
  TestBundle b;
  b.regions = {{"in", bytes_of(in), bytes_of(in)},
               {"index", bytes_of(index), bytes_of(index)},
               {"out", bytes_of(std::vector<std::uint32_t>(4000)), bytes_of(out)}};
  b.code = bytes_of(program("gather"));
  write(b);
  const Answer a = ask(request("replay", {{}}));
  ASSERT_EQ(a.outcome, Outcome::ok);
  EXPECT_EQ(a.variants.at(0).validation.correctness, Correctness::correct) << a.variants[0].validation.reason;
  EXPECT_THAT(a.notes, ::testing::Contains(HasSubstr("not poisoned: region 1 (index)")));
}

TEST_F(FakeWorker, every_timed_launch_of_a_comparison_is_checked) {
  write(scale_bundle());
  // Past validation (three images, up to 135 launches, mutated inputs, warm-up), in the timed part only.
  Request r = request("compare", {{.label = "A"}, variant(program("scale", "fault wrong_answer at 300\n"))});
  r.comparing.measure_s = 0.5;
  const Answer a = ask(r);
  ASSERT_EQ(a.outcome, Outcome::ok);
  EXPECT_EQ(a.variants.at(0).validation.correctness, Correctness::correct) << a.variants[0].validation.reason;
  EXPECT_EQ(a.variants.at(1).validation.correctness, Correctness::incorrect)
      << a.variants[1].validation.reason;
  EXPECT_THAT(a.variants[1].validation.reason, HasSubstr("timed launch"));
}

TEST_F(FakeWorker, a_wrong_answer_at_launch_seven_only_is_caught) {
  write(scale_bundle());
  const Answer a = replay_variant(program("scale", "fault wrong_answer at 7\n"));
  EXPECT_EQ(a.variants.at(0).validation.correctness, Correctness::incorrect)
      << a.variants[0].validation.reason;
  EXPECT_THAT(a.variants[0].validation.reason, HasSubstr("launch 7"));
}

TEST_F(FakeWorker, a_stray_write_in_a_timed_launch_is_caught_and_put_back) {
  write(scale_bundle());
  Request r = request("replay", {variant(program("scale", "fault stray_write at 300\n"))});
  r.conditions.iterations = 500;
  const Answer a = ask(r);
  EXPECT_EQ(a.variants.at(0).validation.correctness, Correctness::incorrect)
      << a.variants[0].validation.reason;
  EXPECT_EQ(ask(request("proof")).proof.state, ProofState::equal);
}

TEST_F(FakeWorker, a_lost_device_is_a_typed_outcome_and_the_worker_leaves) {
  write(scale_bundle());
  const Answer a = replay_variant(program("scale", "fault device_lost at 3\n"));
  EXPECT_EQ(a.outcome, Outcome::device_fault);
  EXPECT_EQ(a.variants.at(0).outcome, Outcome::device_fault);
  EXPECT_EQ(a.variants[0].validation.correctness, Correctness::failed);
  EXPECT_TRUE(worker.child().wait(std::chrono::seconds(5)));
}

TEST_F(FakeWorker, a_hang_is_a_timeout_and_the_worker_leaves) {
  write(scale_bundle());
  const Answer a = replay_variant(program("scale", "fault hang at 2\n"));
  EXPECT_EQ(a.outcome, Outcome::timeout);
  EXPECT_TRUE(worker.child().wait(std::chrono::seconds(5)));
}

TEST_F(FakeWorker, a_comparison_answers_for_the_side_that_works) {
  write(scale_bundle());
  const Answer a = ask(request("compare", {{.label = "A"}, variant(program("scale", "entry other\n"))}));
  EXPECT_EQ(a.outcome, Outcome::ok);
  EXPECT_EQ(a.variants.at(0).outcome, Outcome::ok);
  EXPECT_EQ(a.variants[0].validation.correctness, Correctness::correct);
  EXPECT_TRUE(a.comparison.is_null()) << "there is nothing to compare it with";
  EXPECT_EQ(a.variants.at(1).outcome, Outcome::missing_symbol);
  EXPECT_TRUE(a.variants[1].samples_ns.empty());
  // A variant whose launch cannot be prepared alone fails the request.
  EXPECT_EQ(replay_variant(program("scale", "fault fail_prepare\n")).outcome, Outcome::launch_failed);
  EXPECT_EQ(replay_variant("garbage").outcome, Outcome::compile_failed);
}

TEST_F(FakeWorker, cold_launches_are_flushed_and_warm_ones_are_not) {
  TestBundle b = scale_bundle();
  b.code = bytes_of(program("scale", "time 100\ncold_time 900\n"));
  write(b);
  Request r = request("replay", {{}});
  EXPECT_EQ(ask(r).variants.at(0).samples_ns, std::vector<double>(20, 900.0));
  r.conditions.cache = CacheState::warm;
  EXPECT_EQ(ask(r).variants.at(0).samples_ns, std::vector<double>(20, 100.0));
  r.conditions.flush_mb = 3;
  EXPECT_EQ(ask(r).outcome, Outcome::refused);
  r.conditions.cache = CacheState::cold;
  const Answer a = ask(r);
  EXPECT_EQ(a.variants.at(0).samples_ns, std::vector<double>(20, 900.0));
  EXPECT_EQ(a.ran.flush_mb, 3u);
  EXPECT_EQ(a.ran.cache, CacheState::cold);
}

TEST_F(FakeWorker, sustained_runs_warm_after_one_restore_and_says_so) {
  TestBundle b = scale_bundle();
  b.code = bytes_of(program("scale", "time 100\ncold_time 900\n"));
  write(b);
  Request r = request("replay", {{}});
  r.conditions.mode = Mode::sustained;
  const Answer a = ask(r);
  ASSERT_EQ(a.outcome, Outcome::ok) << a.error->what;
  EXPECT_EQ(a.variants.at(0).samples_ns, std::vector<double>(20, 100.0));
  EXPECT_EQ(a.ran.mode, Mode::sustained);
  EXPECT_EQ(a.ran.cache, CacheState::warm);
  EXPECT_EQ(a.variants[0].validation.correctness, Correctness::correct) << a.variants[0].validation.reason;
}

TEST_F(FakeWorker, sustained_is_refused_for_an_in_place_kernel_by_name_of_the_region) {
  write(saxpy_bundle());
  Request r = request("replay", {{}});
  r.conditions.mode = Mode::sustained;
  for (const bool validate : {true, false}) {
    r.validate = validate;
    const Answer a = ask(r);
    EXPECT_EQ(a.outcome, Outcome::refused);
    ASSERT_TRUE(a.error);
    EXPECT_EQ(a.error->code, ErrorCode::mode_mismatch);
    EXPECT_THAT(a.error->what, HasSubstr("region 1 (y)"));
  }
  write(clamp_bundle());  // idempotent: only the poison shows it
  EXPECT_EQ(ask(r).outcome, Outcome::refused);
}

TEST_F(FakeWorker, repeats_give_one_average_for_each_placement) {
  TestBundle b = scale_bundle();
  b.code = bytes_of(program("scale", "drift 0.001\n"));
  write(b);
  Request r = request("replay", {{}});
  r.conditions.mode = Mode::repeats;
  r.conditions.repeats = 4;
  r.conditions.iterations = 6;
  const Answer a = ask(r);
  ASSERT_EQ(a.outcome, Outcome::ok) << a.error->what;
  EXPECT_EQ(a.variants.at(0).samples_ns.size(), 24u);
  ASSERT_EQ(a.variants[0].replay_averages_ns.size(), 4u);
  double sum = 0;
  for (int i = 0; i < 6; ++i) sum += a.variants[0].samples_ns[static_cast<std::size_t>(i)];
  EXPECT_DOUBLE_EQ(a.variants[0].replay_averages_ns[0], sum / 6);
  EXPECT_EQ(a.ran.repeats, 4u);
  EXPECT_EQ(a.ran.iterations, 6u);
}

TEST_F(FakeWorker, a_memory_pool_that_the_device_cannot_express_is_refused_with_its_reason) {
  write(scale_bundle());
  Request r = request("replay", {{}});
  r.conditions.memory = "host";
  EXPECT_EQ(ask(r).outcome, Outcome::ok);
  r.device = "1";
  const Answer a = ask(r);
  EXPECT_EQ(a.outcome, Outcome::refused);
  EXPECT_THAT(a.error->what, HasSubstr("one memory"));
}

TEST_F(FakeWorker, another_device_is_used_when_asked_and_said) {
  write(scale_bundle());
  Request r = request("replay", {{}});
  r.device = "Fake plain";
  const Answer a = ask(r);
  ASSERT_EQ(a.outcome, Outcome::ok) << a.error->what;
  EXPECT_EQ(a.device.name, "Fake plain");
  EXPECT_THAT(a.notes, ::testing::Contains("captured on Fake full, replayed on Fake plain"));
  EXPECT_THAT(a.notes, ::testing::Contains(HasSubstr("last-level cache is not known")));
  EXPECT_EQ(a.variants.at(0).validation.correctness, Correctness::correct);
}

/// A table of addresses into another region; each u32 there grows by its number + 1.
TestBundle table_bundle() {
  constexpr std::uint64_t kTable = 0x510000000000, kData = 0x510000010000;
  std::vector<std::uint64_t> table(8);
  std::vector<std::uint32_t> data(4096), after(4096);
  for (std::uint32_t i = 0; i < data.size(); ++i) data[i] = after[i] = i;
  for (std::uint32_t i = 0; i < table.size(); ++i) {
    table[i] = kData + 64 * i;
    after[16 * i] += i + 1;
  }
  TestBundle b;
  b.regions = {{"table", bytes_of(table), bytes_of(table), kTable},
               {"data", bytes_of(data), bytes_of(after), kData, false}};
  b.code = bytes_of(program("pointer_table"));
  return b;
}

TEST_F(FakeWorker, pointers_lead_where_they_did_when_addresses_are_exact) {
  write(table_bundle());
  const Answer a = ask(request("replay", {{}}));
  ASSERT_EQ(a.outcome, Outcome::ok) << a.error->what;
  EXPECT_EQ(a.address_mode, AddressMode::exact);
  EXPECT_EQ(a.address_by, "fixed mapping");
  EXPECT_EQ(a.rewritten_words, 0u);
  EXPECT_EQ(a.variants.at(0).validation.correctness, Correctness::correct) << a.variants[0].validation.reason;
  EXPECT_EQ(a.variants[0].restored_bytes_per_iteration, 4096u * 4);
  // Pointers are left alone by the poison, so the kernel survives it.
  EXPECT_THAT(a.notes, ::testing::Not(::testing::Contains(HasSubstr("poisoned"))));
  EXPECT_EQ(ask(request("proof")).proof.state, ProofState::equal);
}

TEST_F(FakeWorker, pointers_are_rewritten_and_counted_when_regions_lie_elsewhere) {
  write(table_bundle());
  TestWorker relocating(TestWorker::Environment{{"KLAB_WORKER_FORCE_RELOCATE", "1"}});
  for (int i = 0; i < 2; ++i) {
    Request r = request(i == 0 ? "proof" : "replay", {{}});
    const Answer a = ask(relocating, r);
    ASSERT_EQ(a.outcome, Outcome::ok) << a.error->what;
    EXPECT_EQ(a.address_mode, AddressMode::relocated);
    EXPECT_EQ(a.rewritten_words, 8u);
    if (i == 0) {
      EXPECT_EQ(a.proof.state, ProofState::equal) << a.proof.detail;
    } else {
      EXPECT_EQ(a.variants.at(0).validation.correctness, Correctness::correct);
    }
  }
}

TEST_F(FakeWorker, pointers_in_push_constants_and_in_the_outcome_are_rewritten_too) {
  constexpr std::uint64_t kData = 0x510000020000;
  std::vector<std::uint64_t> after(512);
  after[0] = kData;
  after[1] = 42;
  TestBundle b;
  b.regions = {{"data", bytes_of(std::vector<std::uint64_t>(512)), bytes_of(after), kData, false}};
  b.code = bytes_of(program("write_pointer"));
  b.push = bytes_of(std::vector<std::uint64_t>{kData});
  write(b);
  TestWorker relocating(TestWorker::Environment{{"KLAB_WORKER_FORCE_RELOCATE", "1"}});
  const Answer a = ask(relocating, request("proof"));
  EXPECT_EQ(a.proof.state, ProofState::equal) << a.proof.detail;
  EXPECT_EQ(a.rewritten_words, 1u);
  Request r = request("replay", {{}});
  r.conditions.mode = Mode::repeats;  // each placement moves them again
  r.conditions.repeats = 3;
  const Answer repeated = ask(relocating, r);
  ASSERT_EQ(repeated.outcome, Outcome::ok);
  EXPECT_EQ(repeated.variants.at(0).validation.correctness, Correctness::correct)
      << repeated.variants[0].validation.reason;
}

TEST_F(FakeWorker, a_taken_address_leads_to_a_new_process_image_then_to_relocation) {
  TestBundle b = table_bundle();
  // An address that no process can map: every attempt collides.
  b.regions[1].address = 0x7ffffffff000;
  std::vector<std::uint64_t> table(8);
  for (std::uint32_t i = 0; i < table.size(); ++i) table[i] = b.regions[1].address + 64 * i;
  b.regions[0].pre = b.regions[0].post = bytes_of(table);
  write(b);
  const Answer a = ask(request("proof"));
  ASSERT_EQ(a.outcome, Outcome::ok) << a.error->what;
  EXPECT_EQ(a.address_mode, AddressMode::relocated);
  EXPECT_EQ(a.proof.state, ProofState::equal) << a.proof.detail;
  EXPECT_EQ(a.rewritten_words, 8u);
  EXPECT_THAT(a.notes, ::testing::Contains(HasSubstr("in 8 fresh one(s)")));
  // The same worker process (it re-executed itself) goes on.
  EXPECT_EQ(ask(request("proof")).proof.state, ProofState::equal);
}

TEST_F(FakeWorker, launch_overrides_change_the_launch_and_are_checked) {
  write(scale_bundle());
  replay::VariantCode v{.label = "a=5"};
  v.launch.push_constants[0] = Bytes(bytes_of(std::vector<float>{5.0f}));
  EXPECT_EQ(ask(request("replay", {v})).variants.at(0).validation.correctness, Correctness::incorrect);
  v.launch.push_constants[0] = Bytes(bytes_of(std::vector<float>{3.0f}));
  EXPECT_EQ(ask(request("replay", {v})).variants.at(0).validation.correctness, Correctness::correct);
  v.launch.push_constants[100] = Bytes(bytes_of(std::vector<float>{3.0f}));
  EXPECT_EQ(ask(request("replay", {v})).variants.at(0).error->code, ErrorCode::usage);
  v.launch.push_constants.erase(100);
  v.launch.grid = bundle::Dim3{0, 1, 1};
  EXPECT_EQ(ask(request("replay", {v})).outcome, Outcome::launch_failed);
}

TEST_F(FakeWorker, a_spent_budget_is_a_timeout) {
  write(scale_bundle());
  Request r = request("replay", {{}});
  r.budget_s = 0.02;
  r.conditions.iterations = 10000;
  const Answer a = ask(r);
  EXPECT_EQ(a.outcome, Outcome::timeout);
  EXPECT_LT(a.ran.iterations, 10000u);
}

TEST_F(FakeWorker, bad_requests_are_answered) {
  write(scale_bundle());
  EXPECT_EQ(ask(request("dance")).error->code, ErrorCode::usage);
  EXPECT_EQ(ask(request("replay")).error->code, ErrorCode::usage);
  Request r = request("replay", {{}});
  r.conditions.iterations = 0;
  EXPECT_EQ(ask(r).error->code, ErrorCode::usage);
  r = request("replay", {{}});
  r.dispatch = 4;
  EXPECT_EQ(ask(r).error->code, ErrorCode::usage);
  r = request("replay", {{}});
  r.bundle = "/nowhere.klab";
  EXPECT_EQ(ask(r).error->code, ErrorCode::not_found);
  r = request("replay", {{.label = "x", .code = "/nowhere.spv"}});
  EXPECT_EQ(ask(r).error->code, ErrorCode::not_found);
}

TEST_F(FakeWorker, leaves_when_the_other_end_hangs_up) {
  worker.hang_up();
  const auto status = worker.child().wait(std::chrono::seconds(5));
  ASSERT_TRUE(status);
  EXPECT_TRUE(status->ok());
}

}  // namespace
}  // namespace klab::worker
