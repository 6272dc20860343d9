// SPDX-License-Identifier: Apache-2.0
// The real klab-worker on the fake device: launches through a parameter buffer, module variables, overrides.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "worker/entry_point.h"
#include "worker/test_worker.h"

namespace klab::worker {
namespace {

using namespace testing;
using bundle::MemoryKind;
using bundle::ProofState;
using replay::AddressMode;
using replay::Answer;
using replay::Outcome;
using replay::Request;
using ::testing::Contains;
using ::testing::HasSubstr;
using validate::Correctness;

using Words = std::vector<std::uint32_t>;
using Longs = std::vector<std::uint64_t>;

std::string program(const std::string& kernel, const std::string& more = {}) {
  return "klab-fake 1\nkernel " + kernel + "\n" + more;
}

class ArgumentsWorker : public ::testing::Test {
 protected:
  TempFolder folder;
  fs::path bundle = folder.path / "t.klab";
  TestWorker worker;
  TestWorker relocating{TestWorker::Environment{{"KLAB_WORKER_FORCE_RELOCATE", "1"}}};

  void write(const TestBundle& b) {
    const auto status = b.write(bundle);
    ASSERT_TRUE(status) << status.error().what;
  }
  replay::VariantCode variant(const std::string& text) {
    const fs::path file = folder.path / (new_id() + ".txt");
    EXPECT_TRUE(write_file_atomic(file, text));
    return {.label = "variant", .code = file};
  }
  Answer ask(TestWorker& w, const std::string& verb, std::vector<replay::VariantCode> variants = {}) {
    auto a = w.ask({.verb = verb, .bundle = bundle, .variants = std::move(variants)});
    EXPECT_TRUE(a) << a.error().what;
    return a.value_or(Answer{});
  }
};

constexpr std::uint64_t kX = 0x520000000000, kY = 0x520000100000;

TestBundle scale_by_arguments() {
  std::vector<float> x(3000), y(3000);
  for (std::size_t i = 0; i < x.size(); ++i) {
    x[i] = static_cast<float>(i) + 1;
    y[i] = 3 * x[i];
  }
  TestBundle b;
  b.regions = {{"x", bytes_of(x), bytes_of(x), kX, false},
               {"y", bytes_of(std::vector<float>(3000)), bytes_of(y), kY, false}};
  b.code = bytes_of(program("args_scale"));
  const float a = 3;
  b.arguments = bytes_of(Longs{kX, kY, 0});
  const std::uint32_t n = 3000;
  std::memcpy(b.arguments.data() + 16, &n, 4);
  std::memcpy(b.arguments.data() + 20, &a, 4);
  return b;
}

TEST_F(ArgumentsWorker, a_parameter_buffer_leads_where_it_did) {
  write(scale_by_arguments());
  const Answer a = ask(worker, "replay", {{}});
  ASSERT_EQ(a.outcome, Outcome::ok) << a.error->what;
  EXPECT_EQ(a.address_mode, AddressMode::exact);
  EXPECT_EQ(a.rewritten_words, 0u);
  EXPECT_EQ(a.variants.at(0).validation.correctness, Correctness::correct) << a.variants[0].validation.reason;
}

TEST_F(ArgumentsWorker, pointers_in_arguments_are_rewritten_and_counted_when_regions_move) {
  write(scale_by_arguments());
  EXPECT_EQ(ask(relocating, "proof").proof.state, ProofState::equal);
  const Answer a = ask(relocating, "replay", {{}});
  ASSERT_EQ(a.outcome, Outcome::ok) << a.error->what;
  EXPECT_EQ(a.address_mode, AddressMode::relocated);
  EXPECT_EQ(a.rewritten_words, 2u);
  EXPECT_EQ(a.variants.at(0).validation.correctness, Correctness::correct) << a.variants[0].validation.reason;
}

TEST_F(ArgumentsWorker, argument_bytes_are_overridden_by_offset) {
  write(scale_by_arguments());
  replay::VariantCode v{.label = "a=5"};
  v.launch.push_constants[20] = Bytes(bytes_of(std::vector<float>{5}));
  EXPECT_EQ(ask(worker, "replay", {v}).variants.at(0).validation.correctness, Correctness::incorrect);
  v.launch.push_constants[20] = Bytes(bytes_of(std::vector<float>{3}));
  EXPECT_EQ(ask(worker, "replay", {v}).variants.at(0).validation.correctness, Correctness::correct);
  v.launch.push_constants[22] = Bytes(bytes_of(std::vector<float>{3}));
  EXPECT_EQ(ask(worker, "replay", {v}).variants.at(0).error->code, ErrorCode::usage);
}

constexpr std::uint64_t kOut = 0x530000000000, kFactor = 0x530000100000, kCounter = 0x530000100100,
                        kTarget = 0x530000100200;
constexpr const char* kVariables = "variable factor 4\nvariable counter 4\nvariable target 8\n";

/// out = {counter * factor, factor}: one argument points into `counter`, the variable `target` holds a
/// pointer to `factor`, and `counter` grows.
TestBundle variables_bundle() {
  TestBundle b;
  Words out(512), after(512);
  after[0] = 7 * 6;
  after[1] = 6;
  b.regions = {
      {"out", bytes_of(out), bytes_of(after), kOut, false},
      {"factor", bytes_of(Words{6}), bytes_of(Words{6}), kFactor, false, MemoryKind::constant},
      {"counter", bytes_of(Words{7}), bytes_of(Words{8}), kCounter, false, MemoryKind::module_variable},
      {"target", bytes_of(Longs{kFactor}), bytes_of(Longs{kFactor}), kTarget, false,
       MemoryKind::module_variable}};
  b.code = bytes_of(program("variables", kVariables));
  b.arguments = bytes_of(Longs{kOut, kCounter});
  return b;
}

TEST_F(ArgumentsWorker, module_variables_are_restored_by_name_and_pointers_to_them_follow) {
  write(variables_bundle());
  for (TestWorker* w : {&worker, &relocating}) {
    const Answer proof = ask(*w, "proof");
    ASSERT_EQ(proof.outcome, Outcome::ok) << proof.error->what;
    EXPECT_EQ(proof.proof.state, ProofState::equal) << proof.proof.detail;
    // The argument and the word in `target`; relocated, the argument to `out` as well.
    EXPECT_EQ(proof.rewritten_words, w == &worker ? 2u : 3u);
    const Answer a =
        ask(*w, "replay", {variant(program("variables", kVariables + std::string("time 50\n")))});
    ASSERT_EQ(a.outcome, Outcome::ok) << a.error->what;
    EXPECT_EQ(a.variants.at(0).validation.correctness, Correctness::correct)
        << a.variants[0].validation.reason;
    EXPECT_EQ(a.variants[0].samples_ns.at(0), 50);
    EXPECT_THAT(a.notes, Contains(HasSubstr("2 pointer word(s) into module variables")));
  }
}

TEST_F(ArgumentsWorker, a_variant_that_leaves_a_variable_wrong_is_caught) {
  write(variables_bundle());
  // Its compiler dropped `counter`: a note, and the missing write shows. The argument still points somewhere:
  // `out`.
  TestBundle b = variables_bundle();
  b.arguments = bytes_of(Longs{kOut, kOut + 16});
  Words out(512), after(512);
  out[4] = after[4] = 7;
  after[0] = 42;
  after[1] = 6;
  b.regions[0].pre = bytes_of(out);
  b.regions[0].post = bytes_of(after);
  write(b);
  EXPECT_EQ(ask(worker, "proof").proof.state, ProofState::equal);
  const Answer a =
      ask(worker, "replay", {variant(program("variables", "variable factor 4\nvariable target 8\n"))});
  ASSERT_EQ(a.outcome, Outcome::ok) << a.error->what;
  EXPECT_THAT(a.notes, Contains(HasSubstr("no variable counter")));
  EXPECT_EQ(a.variants.at(0).validation.correctness, Correctness::incorrect);
  EXPECT_THAT(a.variants[0].validation.reason, HasSubstr("counter"));
}

TEST_F(ArgumentsWorker, a_variable_of_another_size_is_a_missing_symbol) {
  write(variables_bundle());
  const Answer a =
      ask(worker, "replay",
          {variant(program("variables", "variable factor 8\nvariable counter 4\nvariable target 8\n"))});
  EXPECT_EQ(a.outcome, Outcome::missing_symbol);
  EXPECT_THAT(a.error->what, HasSubstr("8 bytes in this code, 4 in the capture"));
  TestBundle b = variables_bundle();
  b.code = bytes_of(program("variables", "variable factor 4\n"));
  write(b);  // the captured code must have all of them
  EXPECT_EQ(ask(worker, "proof").outcome, Outcome::missing_symbol);
}

TEST_F(ArgumentsWorker, a_variable_of_another_module_is_plain_memory) {
  // Only the argument leads to `counter`, which the code object does not have; the kernel leaves it alone.
  TestBundle b = variables_bundle();
  b.regions[2].own_symbol = false;
  b.regions[2].post = b.regions[2].pre;
  b.code = bytes_of(program("variables", "variable factor 4\nvariable target 8\n"));
  write(b);
  const Answer a = ask(worker, "proof");
  ASSERT_EQ(a.outcome, Outcome::ok) << a.error->what;
  EXPECT_EQ(a.proof.state, ProofState::equal) << a.proof.detail;
  EXPECT_THAT(a.notes, Contains(HasSubstr("counter is another code object's")));
}

TEST_F(ArgumentsWorker, variables_are_right_in_comparisons_and_all_conditions) {
  write(variables_bundle());
  Request r{.verb = "compare",
            .bundle = bundle,
            .variants = {{.label = "A"}, variant(program("variables", kVariables))}};
  r.comparing.measure_s = 0.2;
  r.comparing.identity = false;
  const auto compared = worker.ask(r);
  ASSERT_TRUE(compared && compared->outcome == Outcome::ok);
  EXPECT_FALSE(compared->comparison.is_null());
  Request again = r;
  again.verb = "replay";
  again.conditions.mode = replay::Mode::repeats;
  again.conditions.repeats = 2;
  again.variants.pop_back();
  const auto repeated = worker.ask(again);
  ASSERT_TRUE(repeated && repeated->outcome == Outcome::ok);
  for (const Answer* a : {&*compared, &*repeated})
    for (const auto& v : a->variants)
      EXPECT_EQ(v.validation.correctness, Correctness::correct) << v.validation.reason;
  again = r;
  again.conditions.mode = replay::Mode::repeats;
  const auto refused = worker.ask(again);
  ASSERT_TRUE(refused);
  EXPECT_EQ(refused->outcome, Outcome::refused);
}

TEST_F(ArgumentsWorker, block_cluster_shared_and_attributes_are_overridden) {
  TestBundle b;
  Words after(12);
  after[0] = 64, after[1] = after[2] = 1;
  after[7] = 1, after[8] = 5;
  b.regions = {{"out", bytes_of(Words(12)), bytes_of(after), kOut, false}};
  b.code = bytes_of(program("launch_facts"));
  b.arguments = bytes_of(Longs{kOut});
  b.attributes = {{"priority", 5}};
  write(b);
  EXPECT_EQ(ask(worker, "proof").proof.state, ProofState::equal);
  replay::VariantCode v{.label = "other"};
  auto differs_at = [&] {
    const Answer a = ask(worker, "replay", {v});
    EXPECT_EQ(a.outcome, Outcome::ok);
    const auto& d = a.variants.at(0).validation.differences;
    v.launch = {};
    return d.empty() ? -1 : static_cast<int>(d[0].first_offset);
  };
  EXPECT_EQ(differs_at(), -1);
  v.launch.block = bundle::Dim3{32, 1, 1};
  EXPECT_EQ(differs_at(), 0);
  v.launch.cluster = bundle::Dim3{2, 1, 1};
  EXPECT_EQ(differs_at(), 12);
  v.launch.dynamic_shared_bytes = 1024;
  EXPECT_EQ(differs_at(), 24);
  v.launch.attributes = {{"cooperative", 1}};
  EXPECT_EQ(differs_at(), 28);
  v.launch.attributes = {{"priority", 6}};
  EXPECT_EQ(differs_at(), 32);
}

TEST_F(ArgumentsWorker, memory_of_another_kind_is_noted) {
  TestBundle b = scale_by_arguments();
  b.regions[0].kind = MemoryKind::managed;
  write(b);
  EXPECT_THAT(ask(worker, "replay", {{}}).notes,
              Contains(HasSubstr("memory_kind_changed: 1 region(s) of managed")));
}

TEST_F(ArgumentsWorker, a_kernel_with_another_mangling_is_found_and_said) {
  TestBundle b = scale_by_arguments();
  b.entry_point = "_Z5scalePKfPfif";
  b.code = bytes_of(program("args_scale", "entry _Z5scalePKfPfif\n"));
  write(b);
  const Answer a = ask(worker, "replay", {variant(program("args_scale", "entry scale\n"))});
  ASSERT_EQ(a.outcome, Outcome::ok) << a.error->what;
  EXPECT_THAT(a.notes, Contains(HasSubstr("its kernel is scale")));
  EXPECT_EQ(ask(worker, "replay", {variant(program("args_scale", "entry other\n"))}).outcome,
            Outcome::missing_symbol);
}

TEST(EntryPoint, base_names_lose_scopes_templates_and_arguments) {
  EXPECT_EQ(base_name("scale"), "scale");
  EXPECT_EQ(base_name("_Z5scalePfi"), "scale");
  EXPECT_EQ(base_name("_Z5scaleIfEvPT_i"), "scale");  // void scale<float>(float*, int)
  EXPECT_EQ(base_name("_ZN12_GLOBAL__N_11k5scaleIfEEvPT_i"),
            "scale");  // (anonymous namespace)::k::scale<float>
  EXPECT_EQ(base_name("_ZN2at6native3addEv"), "add");
}

TEST(EntryPoint, the_wanted_kernel_wins_and_two_candidates_are_refused) {
  EXPECT_EQ(choose_entry_point("_Z1kv", {"_Z1ki", "_Z1kv"})->name, "_Z1kv");
  EXPECT_EQ(choose_entry_point("_Z1kv", {"_Z1ki", "_Z1jv"})->name, "_Z1ki");
  const auto two = choose_entry_point("_Z1kv", {"_Z1ki", "k"});
  ASSERT_FALSE(two);
  EXPECT_EQ(two.error().code, ErrorCode::missing_symbol);
  EXPECT_THAT(two.error().what, HasSubstr("_Z1ki, k"));
}

}  // namespace
}  // namespace klab::worker
