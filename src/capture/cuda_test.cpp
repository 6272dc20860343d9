// SPDX-License-Identifier: Apache-2.0
// The CUDA shim against klab, both as they ship: the shim's probe puts a driver over host memory in the place
// of libcuda (shim/cuda/probe). What needs a GPU is in tests/hw/cuda.sh.
#ifdef KLAB_CUDA_PROBE
#include <algorithm>

#include "capture/launch.h"
#include "capture/test_support.h"

namespace klab::capture {
namespace {

Target cuda_probe(const std::string& scenario) {
  Target t;
  t.argv = {KLAB_BUILD_DIR "/klab_cuda_probe", scenario,
            KLAB_SOURCE_DIR "/src/shim/cuda/test_data/step_sm90.cubin"};
  t.quiet = true;
  t.limit = std::chrono::seconds(60);
  return t;
}

// As the probe fills its memory.
std::byte pattern(std::size_t i, unsigned seed) { return static_cast<std::byte>(i * 31 / 7 + seed); }

struct Opened {
  Folder folder;
  Captured captured;
  std::optional<bundle::Reader> reader;
  const bundle::Dispatch& dispatch(std::size_t i = 0) const { return reader->manifest().dispatches[i]; }
  const bundle::Region* region(std::uint64_t size) const {
    for (const bundle::Region& r : dispatch().regions)
      if (r.size == size) return &r;
    return nullptr;
  }
  const bundle::Region* named(const std::string& name) const {
    for (const bundle::Region& r : dispatch().regions)
      if (r.name == name) return &r;
    return nullptr;
  }
};

void take(Opened& o, const std::string& scenario, const std::string& kernel = "^step$",
          std::vector<std::uint64_t> nth = {1}, bundle::Scope scope = bundle::Scope::reachable) {
  CaptureRequest r = request(o.folder, cuda_probe(scenario), kernel, std::move(nth));
  r.scope = scope;
  auto done = capture(r);
  ASSERT_TRUE(done) << text_of(done.error());
  EXPECT_EQ(done->target_exit, 0);
  o.captured = *done;
  auto reader = bundle::Reader::open(done->sealed.path);
  ASSERT_TRUE(reader) << text_of(reader.error());
  o.reader.emplace(std::move(*reader));
  const auto verified = o.reader->verify();
  ASSERT_TRUE(verified) << text_of(verified.error());
}

std::string refusal(const std::string& scenario,
                    std::chrono::milliseconds deadline = std::chrono::seconds(10)) {
  Folder f;
  CaptureRequest r = request(f, cuda_probe(scenario), "^step$");
  r.drain_deadline = deadline;
  const auto done = capture(r);
  if (done) return "it was captured";
  EXPECT_TRUE(f.empty());
  return text_of(done.error());
}

// All that the probe's step reaches, in and out.
void expect_whole(const Opened& o, int before = 0) {
  const bundle::Dispatch& d = o.dispatch();
  const bundle::Region* a = o.region((3u << 20) + 100);
  ASSERT_NE(a, nullptr);
  EXPECT_EQ(a->kind, bundle::MemoryKind::device);
  EXPECT_EQ(a->reached_by, bundle::ReachedBy::argument);
  const auto pre = values<std::byte>(*o.reader, a->pre), post = values<std::byte>(*o.reader, a->post);
  ASSERT_EQ(pre.size(), a->size);
  for (std::size_t i = 0; i < pre.size(); ++i) {
    const int grown = i < 1000 ? 1 : 0;
    const std::byte start = static_cast<std::byte>(static_cast<int>(pattern(i, 1)) + grown * before);
    ASSERT_EQ(pre[i], start) << i;
    ASSERT_EQ(post[i], static_cast<std::byte>(static_cast<int>(start) + grown)) << i;
  }
  struct Want {
    std::uint64_t size;
    bundle::MemoryKind kind;
    bundle::ReachedBy by;
  };
  using enum bundle::MemoryKind;
  for (const Want& w :
       {Want{5000, device, bundle::ReachedBy::argument}, Want{6000, device, bundle::ReachedBy::argument},
        Want{7000, device, bundle::ReachedBy::pointer}, Want{8000, pinned_host, bundle::ReachedBy::pointer},
        Want{9000, managed, bundle::ReachedBy::pointer}, Want{12000, device, bundle::ReachedBy::pointer}}) {
    const bundle::Region* r = o.region(w.size);
    ASSERT_NE(r, nullptr) << w.size;
    EXPECT_EQ(r->kind, w.kind) << w.size;
    EXPECT_EQ(r->reached_by, w.by) << w.size;
  }
  EXPECT_EQ(o.region(10000), nullptr) << "freed before the launch";
  for (const char* name : {"table", "cptr", "gptr", "garr", "ginit"}) {
    const bundle::Region* r = o.named(name);
    ASSERT_NE(r, nullptr) << name;
    EXPECT_EQ(r->kind, name[0] == 'g' ? module_variable : constant) << name;
    EXPECT_EQ(r->reached_by, bundle::ReachedBy::symbol);
  }
  // The buffer that the kernel got: its words are the regions' addresses.
  ASSERT_GE(d.arguments.size(), 49u);
  std::uint64_t word;
  std::memcpy(&word, d.arguments.data(), 8);
  EXPECT_EQ(word, a->address);
  std::memcpy(&word, d.arguments.data() + 40, 8);
  EXPECT_EQ(word, o.region(6000)->address + 3000);
  EXPECT_EQ(d.arguments.data()[48], std::byte{'k'});
  ASSERT_EQ(d.argument_layout.size(), 4u);
  EXPECT_EQ(d.argument_layout[2].offset, 16u);
  EXPECT_EQ(d.argument_layout[2].size, 32u);
}

TEST(CudaCapture, takes_all_that_arguments_lead_to_and_variables) {
  Opened o;
  take(o, "plain");
  if (HasFatalFailure()) return;
  expect_whole(o, 1);  // the other kernel ran before it
  EXPECT_EQ(o.region(11000), nullptr) << "nothing points to it";
  const bundle::Manifest& m = o.reader->manifest();
  EXPECT_EQ(m.device.api, "cuda");
  EXPECT_EQ(m.device.name, "Fake GPU");
  EXPECT_EQ(m.device.api_version, "13.0");
  EXPECT_EQ(m.device.type, "discrete");
  EXPECT_EQ(m.device.device_id, 90u);
  EXPECT_EQ(m.device.uuid, "abababababababababababababababab");
  ASSERT_EQ(m.code.size(), 1u);
  EXPECT_EQ(m.code[0].kind, "cubin");
  EXPECT_EQ(m.code[0].file, "code/0.cubin");
  EXPECT_EQ(*read_file(o.captured.sealed.path / m.code[0].file, 1 << 20),
            *read_file(KLAB_SOURCE_DIR "/src/shim/cuda/test_data/step_sm90.cubin", 1 << 20));
  const bundle::Dispatch& d = o.dispatch();
  EXPECT_EQ(d.name, "step");
  EXPECT_EQ(d.entry_point, "step");
  EXPECT_EQ(d.grid, (bundle::Dim3{3, 2, 1}));
  EXPECT_EQ(d.block, (bundle::Dim3{64, 2, 1}));
  EXPECT_EQ(d.dynamic_shared_bytes, 1024u);
  EXPECT_EQ(d.call, "cuLaunchKernel");
  EXPECT_EQ(d.nth, 1u);
  EXPECT_EQ(d.sequence, 2u);
  EXPECT_DOUBLE_EQ(d.program_ns, 250000);
  ASSERT_EQ(d.attributes.size(), 1u);
  EXPECT_EQ(d.attributes[0].name, "function.max_dynamic_shared_size_bytes");
  EXPECT_EQ(d.attributes[0].value, 65536);
  // mvar has no memory in the probe's driver: said, not lost.
  ASSERT_EQ(m.left_out.size(), 1u);
  EXPECT_EQ(m.left_out[0].what, "module variable mvar");
}

TEST(CudaCapture, scope_all_takes_every_allocation) {
  Opened o;
  take(o, "plain", "^step$", {2}, bundle::Scope::all);
  if (HasFatalFailure()) return;
  ASSERT_NE(o.region(11000), nullptr);
  EXPECT_EQ(o.region(11000)->reached_by, bundle::ReachedBy::scope_all);
  EXPECT_EQ(o.region(10000), nullptr);
  EXPECT_EQ(o.dispatch().nth, 2u);
}

TEST(CudaCapture, reads_the_layout_from_the_cubin_when_the_driver_does_not_tell) {
  Opened o;
  take(o, "cubin_layout");
  if (!HasFatalFailure()) expect_whole(o, 1);
}

TEST(CudaCapture, resolves_a_kernel_handle_whose_code_is_loaded_lazily) {
  Opened o;
  take(o, "kernel_handle");
  if (!HasFatalFailure()) expect_whole(o);
}

TEST(CudaCapture, matches_demangled_names_and_mangled_ones_and_hashes) {
  for (const char* kernel : {"tmpl<float>", "_Z4tmpl", "void tmpl<float>(float*, double)"}) {
    Folder f;
    CaptureRequest r = request(f, cuda_probe("plain"), kernel);
    const auto done = capture(r);
    ASSERT_TRUE(done) << kernel << ": " << text_of(done.error());
    auto reader = bundle::Reader::open(done->sealed.path);
    ASSERT_TRUE(reader);
    EXPECT_EQ(reader->manifest().dispatches[0].name, "void tmpl<float>(float*, double)");
    EXPECT_EQ(reader->manifest().dispatches[0].entry_point, "_Z4tmplIfEvPT_d");
  }
}

TEST(CudaCapture, takes_packed_arguments_clusters_and_attributes) {
  Opened o;
  take(o, "packed");
  if (HasFatalFailure()) return;
  expect_whole(o);
  const bundle::Dispatch& d = o.dispatch();
  EXPECT_EQ(d.call, "cuLaunchKernelEx");
  EXPECT_EQ(d.cluster, (bundle::Dim3{2, 1, 1}));
  EXPECT_EQ(d.dynamic_shared_bytes, 60000u);
  std::map<std::string, std::int64_t> attributes;
  for (const auto& a : d.attributes) attributes[a.name] = a.value;
  EXPECT_EQ(attributes.at("programmatic_stream_serialization"), 1);
  EXPECT_EQ(attributes.at("priority"), -3);
  const auto& left = o.reader->manifest().left_out;
  EXPECT_TRUE(std::any_of(left.begin(), left.end(),
                          [](const auto& l) { return l.what == "launch attribute programmatic_event"; }));
}

TEST(CudaCapture, takes_several_executions) {
  Opened o;
  take(o, "many", "^step$", {2, 5});
  if (HasFatalFailure()) return;
  ASSERT_EQ(o.reader->manifest().dispatches.size(), 2u);
  EXPECT_EQ(o.dispatch(0).nth, 2u);
  EXPECT_EQ(o.dispatch(1).nth, 5u);
  EXPECT_EQ(o.reader->manifest().code.size(), 1u);
}

TEST(CudaCapture, reaches_the_mapped_neighbours_of_what_is_pointed_to) {
  Opened o;
  take(o, "mapped");
  if (HasFatalFailure()) return;
  const bundle::Region* r = o.region(3u << 20);
  ASSERT_NE(r, nullptr);
  const auto pre = values<std::byte>(*o.reader, r->pre);
  for (std::size_t i = 0; i < pre.size(); ++i) ASSERT_EQ(pre[i], pattern(i, 20)) << i;
}

TEST(CudaCapture, takes_textures_with_their_texels) {
  Opened o;
  take(o, "textures");
  if (HasFatalFailure()) return;
  const bundle::Dispatch& d = o.dispatch();
  ASSERT_EQ(d.textures.size(), 2u);
  const auto array =
      std::find_if(d.textures.begin(), d.textures.end(), [](auto& t) { return t.resource == "array"; });
  const auto linear =
      std::find_if(d.textures.begin(), d.textures.end(), [](auto& t) { return t.resource == "linear"; });
  ASSERT_TRUE(array != d.textures.end() && linear != d.textures.end());
  EXPECT_EQ(array->handle, 0x100000001u);
  EXPECT_EQ(array->format, "float");
  EXPECT_EQ(array->channels, 2u);
  EXPECT_EQ(array->width, 10u);
  EXPECT_EQ(array->height, 6u);
  EXPECT_EQ(array->sampling.size(), 104u);
  const bundle::Region& texels = d.regions[array->region];
  EXPECT_EQ(texels.kind, bundle::MemoryKind::image);
  EXPECT_EQ(texels.address, 0u);
  const auto pre = values<std::byte>(*o.reader, texels.pre);
  ASSERT_EQ(pre.size(), 480u);
  for (std::size_t i = 0; i < pre.size(); ++i) ASSERT_EQ(pre[i], pattern(i, 30)) << i;
  EXPECT_EQ(linear->handle, 0x100000002u);
  EXPECT_EQ(linear->offset, 512u);
  EXPECT_EQ(linear->linear_bytes, 4000u);
  EXPECT_EQ(d.regions[linear->region].size, 20000u);
}

TEST(CudaCapture, drains_default_streams_of_threads) {
  Opened o;
  take(o, "per_thread");
  if (!HasFatalFailure()) expect_whole(o);
}

TEST(CudaCapture, does_not_count_launches_that_are_recorded) {
  Opened o;
  take(o, "recorded");
  if (!HasFatalFailure()) expect_whole(o, 2);
}

TEST(CudaCapture, refuses_by_name_what_it_cannot_take) {
  EXPECT_NE(refusal("ipc").find("memory of another process (cuIpcOpenMemHandle)"), std::string::npos)
      << refusal("ipc");
  EXPECT_NE(refusal("graph").find("node of a CUDA graph"), std::string::npos) << refusal("graph");
  EXPECT_NE(refusal("no_code").find("its code was not seen"), std::string::npos) << refusal("no_code");
  EXPECT_NE(refusal("unreadable").find("cannot be read any more"), std::string::npos)
      << refusal("unreadable");
  const std::string threads = refusal("per_thread_busy", std::chrono::milliseconds(200));
  EXPECT_NE(threads.find("the default streams of its threads"), std::string::npos) << threads;
  const auto started = std::chrono::steady_clock::now();
  const std::string busy = refusal("busy", std::chrono::milliseconds(300));
  EXPECT_NE(busy.find("did not drain within 300 ms"), std::string::npos) << busy;
  EXPECT_LT(std::chrono::steady_clock::now() - started, std::chrono::seconds(10));
}

TEST(CudaCapture, over_the_limit_says_how_much_it_would_be) {
  Folder f;
  CaptureRequest r = request(f, cuda_probe("plain"), "^step$");
  r.max_bytes = 1 << 20;
  const auto done = capture(r);
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().code, ErrorCode::cap_reached);
  const std::uint64_t all =
      (3u << 20) + 100 + 5000 + 6000 + 7000 + 8000 + 9000 + 12000 + 64 + 8 + 8 + 400 + 4;
  EXPECT_NE(done.error().what.find(std::to_string(all)), std::string::npos) << done.error().what;
  EXPECT_TRUE(f.empty());
}

TEST(CudaCapture, says_how_often_a_kernel_ran_and_which_there_are) {
  Folder f;
  auto done = capture(request(f, cuda_probe("plain"), "^step$", {9}));
  ASSERT_FALSE(done);
  EXPECT_NE(done.error().what.find("step ran 2 times; execution 9"), std::string::npos) << done.error().what;
  done = capture(request(f, cuda_probe("plain"), "stepp"));
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().code, ErrorCode::no_such_kernel);
  EXPECT_NE(done.error().hint.find("step"), std::string::npos) << text_of(done.error());
}

TEST(CudaCapture, a_forked_child_leaves_its_parent_alone) {
  Opened o;
  take(o, "fork");
  if (!HasFatalFailure()) expect_whole(o);
}

TEST(CudaCapture, holds_other_threads_back_while_it_reads) {
  Opened o;
  take(o, "threads", "^step$", {20, 40});
  if (HasFatalFailure()) return;
  const auto& dispatches = o.reader->manifest().dispatches;
  ASSERT_EQ(dispatches.size(), 2u);
  for (const bundle::Dispatch& d : dispatches) {
    const auto a =
        std::find_if(d.regions.begin(), d.regions.end(), [](auto& r) { return r.size == (3u << 20) + 100; });
    ASSERT_NE(a, d.regions.end());
    const auto pre = values<std::byte>(*o.reader, a->pre), post = values<std::byte>(*o.reader, a->post);
    for (std::size_t i = 0; i < 1000; ++i)
      ASSERT_EQ(post[i], static_cast<std::byte>(static_cast<int>(pre[i]) + 1)) << i;
  }
}

TEST(CudaTrace, numbers_rows_in_the_order_of_the_calls) {
  const auto list = trace(cuda_probe("trace"));
  ASSERT_TRUE(list) << text_of(list.error());
  EXPECT_EQ(list->device.api, "cuda");
  ASSERT_EQ(list->rows.size(), 5u);
  const char* names[] = {"void tmpl<float>(float*, double)", "void tmpl<float>(float*, double)", "step",
                         "step", "step"};
  const std::uint64_t nth[] = {1, 2, 1, 2, 3};
  const double begins[] = {100, 5000, 9000, 9800, 9900};
  for (std::size_t i = 0; i < 5; ++i) {
    const import::Row& r = list->rows[i];
    EXPECT_EQ(list->kernels[r.kernel].name, names[i]) << i;
    EXPECT_EQ(r.sequence, i + 1);
    EXPECT_EQ(r.nth, nth[i]) << i;
    EXPECT_DOUBLE_EQ(r.begin_ns, begins[i]);
    EXPECT_DOUBLE_EQ(r.gpu_ns, 500);
    EXPECT_EQ(r.grid, (bundle::Dim3{4, 3, 2}));
    EXPECT_EQ(r.dynamic_shared_bytes, 77u);
    EXPECT_EQ(r.call, i < 3 ? "cuLaunchKernel" : "cuGraphLaunch");
  }
  for (const import::Kernel& k : list->kernels)
    EXPECT_EQ(k.block, k.name == "step" ? (bundle::Dim3{64, 1, 1}) : (bundle::Dim3{0, 0, 0})) << k.name;
  EXPECT_EQ(list->rows[0].block, (bundle::Dim3{96, 1, 1}));
  // And as a file.
  Folder f;
  ASSERT_TRUE(import::write_list(f.path / "list", *list));
  const auto again = import::read_list(f.path / "list");
  ASSERT_TRUE(again) << text_of(again.error());
  EXPECT_EQ(again->rows[4].block, (bundle::Dim3{64, 1, 1}));
  EXPECT_EQ(again->rows[4].dynamic_shared_bytes, 77u);
}

TEST(CudaTrace, keeps_the_rows_of_a_program_that_crashes) {
  Target t = cuda_probe("trace");
  t.environment["KLAB_PROBE_CRASH"] = "1";
  const auto list = trace(t);
  ASSERT_TRUE(list) << text_of(list.error());
  EXPECT_EQ(list->rows.size(), 5u);
}

TEST(CudaEnvironment, a_library_that_is_injected_already_stays_and_is_told) {
  std::vector<std::string> warnings;
  auto set = cuda_environment(
      "/x/libklab_cuda.so", [](const std::string&) { return std::nullopt; }, warnings);
  EXPECT_EQ(*set.at("CUDA_INJECTION64_PATH"), "/x/libklab_cuda.so");
  EXPECT_TRUE(warnings.empty());
  set = cuda_environment(
      "/x/libklab_cuda.so", [](const std::string&) { return std::optional<std::string>("/other.so"); },
      warnings);
  EXPECT_TRUE(set.empty());
  ASSERT_EQ(warnings.size(), 1u);
  EXPECT_NE(warnings[0].find("/other.so"), std::string::npos);
}

// No libcuda: nothing loads the shim, and the variable changes nothing.
TEST(CudaEnvironment, a_program_without_cuda_is_told_apart) {
  Folder f;
  Target t;
  t.argv = {"/bin/true"};
  const auto done = capture(request(f, t, "x"));
  ASSERT_FALSE(done);
  EXPECT_NE(done.error().what.find("Vulkan instance or initialising CUDA"), std::string::npos)
      << done.error().what;
}

}  // namespace
}  // namespace klab::capture
#endif
