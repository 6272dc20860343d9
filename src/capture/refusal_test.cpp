// SPDX-License-Identifier: Apache-2.0
// What cannot be captured is refused by name, and leaves nothing behind; the program is not disturbed.
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "base/subprocess.h"
#include "capture/launch.h"
#include "capture/test_support.h"

namespace klab::capture {
namespace {

// Runs a capture that must fail. The target's own verdict is in a file, so that it is seen too.
Error refused(const Folder& f, CaptureRequest r, const std::string& expected_exit = "0") {
  Folder logs;
  std::string line = "'" + r.target.argv[0] + "'";
  for (std::size_t i = 1; i < r.target.argv.size(); ++i) line += " '" + r.target.argv[i] + "'";
  r.target.argv = {"sh", "-c", line + "; echo $? > " + (logs.path / "exit").string()};
  auto done = capture(r);
  EXPECT_FALSE(done);
  EXPECT_TRUE(f.empty()) << "something was left";
  if (!expected_exit.empty()) {
    EXPECT_EQ(read_file(logs.path / "exit").value_or(""), expected_exit + "\n");
  }
  return done ? Error{} : done.error();
}

TEST(Refusal, names_a_storage_image_with_its_binding) {
  Folder f;
  const Error e = refused(f, request(f, probe({"image"})));
  EXPECT_EQ(e.code, ErrorCode::capture_refused);
  EXPECT_NE(e.what.find("binding 3 of set 0 is a storage image (VK_DESCRIPTOR_TYPE_STORAGE_IMAGE)"),
            std::string::npos)
      << e.what;
}

TEST(Refusal, is_listed_by_a_trace) {
  const auto list = trace(probe({"image"}));
  ASSERT_TRUE(list);
  ASSERT_EQ(list->kernels.size(), 1u);
  EXPECT_NE(list->kernels[0].refusal.find("storage image"), std::string::npos);
}

TEST(Refusal, of_a_dispatch_inside_a_query_lets_the_next_one_be_taken) {
  Folder f;
  const Error e = refused(f, request(f, probe({"query"})));
  EXPECT_EQ(e.code, ErrorCode::capture_refused);
  EXPECT_NE(e.what.find("while a query is active"), std::string::npos) << e.what;
  Folder g;
  EXPECT_TRUE(capture(request(g, probe({"query"}), ".", {2})));
}

TEST(Refusal, when_the_queue_does_not_drain_lets_the_program_go_on) {
  Folder f;
  auto r = request(f, probe({"late_signal"}));
  r.drain_deadline = std::chrono::milliseconds(300);
  const Error e = refused(f, r);
  EXPECT_EQ(e.code, ErrorCode::capture_refused);
  EXPECT_NE(e.what.find("did not drain within 300 ms"), std::string::npos) << e.what;
}

TEST(Refusal, offers_the_nearest_names) {
  Folder f;
  const Error e = refused(f, request(f, program("matmul_tiled"), "matmul_tilde"));
  EXPECT_EQ(e.code, ErrorCode::no_such_kernel);
  EXPECT_NE(e.hint.find("matmul_tiled"), std::string::npos) << e.hint;
}

TEST(Refusal, says_how_often_the_kernel_ran) {
  Folder f;
  const Error e = refused(f, request(f, probe({"resubmit", "4"}), ".", {9}));
  EXPECT_EQ(e.code, ErrorCode::no_such_kernel);
  EXPECT_NE(e.what.find("ran 4 times; execution 9 was asked for"), std::string::npos) << e.what;
}

TEST(Refusal, of_a_list_that_the_program_did_not_finish_leaves_no_bundle) {
  Folder f;
  const Error e = refused(f, request(f, probe({"resubmit", "4"}), ".", {2, 9}));
  EXPECT_EQ(e.code, ErrorCode::no_such_kernel);
}

TEST(Refusal, over_the_size_limit_says_the_whole_size) {
  Folder f;
  auto r = request(f, program("pointer_table"));
  r.max_bytes = 600'000;
  const Error e = refused(f, r);
  EXPECT_EQ(e.code, ErrorCode::cap_reached);
  // Everything that it reaches, although only the first part had been paid for when the limit was met.
  EXPECT_NE(e.what.find("2621536 bytes"), std::string::npos) << e.what;
}

TEST(Refusal, of_a_program_that_dies_is_target_failed) {
  Folder f;
  const auto done = capture(request(f, program("crash"), "nothing"));
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().code, ErrorCode::target_failed);
  EXPECT_NE(done.error().what.find("SIGSEGV"), std::string::npos);
  EXPECT_TRUE(f.empty());
}

TEST(Refusal, of_a_program_that_is_not_there_is_target_failed) {
  Folder f;
  Target t;
  t.argv = {"/nonexistent/program"};
  const auto done = capture(request(f, t));
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().code, ErrorCode::target_failed);
  EXPECT_TRUE(f.empty());
}

TEST(Refusal, of_a_program_without_vulkan_says_so) {
  Folder f;
  Target t;
  t.argv = {"true"};
  const auto done = capture(request(f, t));
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().code, ErrorCode::no_such_kernel);
  EXPECT_NE(done.error().what.find("without creating a Vulkan instance"), std::string::npos);
}

TEST(Refusal, of_a_bad_pattern_is_usage) {
  Folder f;
  EXPECT_EQ(capture(request(f, probe({"resubmit"}), "a(b")).error().code, ErrorCode::usage);
  EXPECT_EQ(capture(request(f, probe({"resubmit"}), ".", {2, 1})).error().code, ErrorCode::usage);
  EXPECT_EQ(capture(request(f, probe({"resubmit"}), ".", {0})).error().code, ErrorCode::usage);
}

TEST(Interrupt, ends_the_target_and_leaves_nothing) {
  Folder f;
  const auto begin = std::chrono::steady_clock::now();
  auto done = capture(request(f, probe({"slow", "3000"}), ".", {2500}), {}, [&] {
    return std::chrono::steady_clock::now() - begin > std::chrono::milliseconds(700);
  });
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().code, ErrorCode::interrupted);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(10));
  EXPECT_TRUE(f.empty());
}

TEST(Limit, ends_a_target_that_runs_for_too_long) {
  Folder f;
  auto r = request(f, probe({"slow", "3000"}), ".", {2500});
  r.target.limit = std::chrono::milliseconds(700);
  const auto done = capture(r);
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().code, ErrorCode::timeout);
  EXPECT_TRUE(f.empty());
}

// klab in a child of ours, killed at many points of a capture: the program must end well by itself, and what
// is left on disk is a whole bundle or a staging folder that the next writer sweeps.
TEST(Kill, of_klab_leaves_the_program_running_to_its_end) {
  for (int delay_ms : {5, 30, 60, 100, 150, 200, 300, 500}) {
    Folder f, logs;
    auto r = request(f, probe({"slow", "15"}), ".", {1, 4, 7, 10, 13, 16, 19, 22});
    const std::string exit_file = (logs.path / "exit").string();
    r.target.argv = {"sh", "-c",
                     r.target.argv[0] + " slow 15; echo $? > " + exit_file + ".new && mv " + exit_file +
                         ".new " + exit_file};
    const pid_t pid = ::fork();
    ASSERT_GE(pid, 0);
    if (pid == 0) {
      (void)capture(r);
      ::_exit(0);
    }
    ::usleep(static_cast<useconds_t>(delay_ms) * 1000);
    ::kill(pid, SIGKILL);
    ::waitpid(pid, nullptr, 0);
    std::string text;
    for (int i = 0; i < 200 && text.empty(); ++i) {
      ::usleep(50'000);
      text = read_file(exit_file).value_or("");
      // Killed before it had started anything: nothing will come.
      if (i > 60 && text.empty()) break;
    }
    if (!text.empty()) {
      EXPECT_EQ(text, "0\n") << delay_ms;
    }
    if (fs::exists(r.bundle)) {
      auto reader = bundle::Reader::open(r.bundle);
      ASSERT_TRUE(reader);
      EXPECT_TRUE(reader->verify());
      fs::remove_all(r.bundle);
    }
    bundle::sweep_partial(f.path);
    EXPECT_TRUE(f.empty()) << delay_ms;
  }
}

TEST(Kill, of_the_target_at_any_moment_leaves_a_whole_bundle_or_none) {
  for (int delay_ms : {20, 60, 100, 140, 180, 240, 320}) {
    Folder f;
    auto r = request(f, probe({"slow", "60"}), ".", {1, 2, 3, 4, 5, 6});
    r.target.argv = {"sh", "-c",
                     "exec " + r.target.argv[0] + " slow 60 & p=$!; sleep 0." + (delay_ms < 100 ? "0" : "") +
                         std::to_string(delay_ms) + "; kill -9 $p; wait $p"};
    const auto done = capture(r);
    if (done) {
      EXPECT_TRUE(bundle::Reader::open(r.bundle)->verify());
    } else {
      EXPECT_TRUE(f.empty()) << delay_ms << " " << text_of(done.error());
    }
  }
}

TEST(Rendezvous, sweeps_the_folder_of_a_klab_that_died) {
  const pid_t pid = ::fork();
  if (pid == 0) {
    auto r = Rendezvous::create();
    ::kill(::getpid(), SIGKILL);
  }
  ::waitpid(pid, nullptr, 0);
  auto count = [&] {
    int n = 0;
    const char* runtime = std::getenv("XDG_RUNTIME_DIR");
    for (const char* parent : {"/tmp", runtime})
      if (parent != nullptr && fs::is_directory(parent))
        for (const auto& e : fs::directory_iterator(parent))
          n += e.path().filename().string().rfind("klab-capture-" + std::to_string(pid) + "-", 0) == 0;
    return n;
  };
  EXPECT_GE(count(), 1);
  auto mine = Rendezvous::create();
  ASSERT_TRUE(mine);
  struct stat st {};
  ASSERT_EQ(::stat(mine->path().parent_path().c_str(), &st), 0);
  EXPECT_EQ(st.st_mode & 0777, 0700u);
  EXPECT_EQ(count(), 0);
}

TEST(Environment, keeps_the_layers_that_the_user_has) {
  std::map<std::string, std::string> user;
  const auto get = [&](const std::string& name) -> std::optional<std::string> {
    const auto it = user.find(name);
    return it == user.end() ? std::nullopt : std::optional(it->second);
  };
  auto set = layer_environment("/k", get);
  EXPECT_EQ(set.at("VK_ADD_LAYER_PATH"), "/k");
  EXPECT_EQ(set.at("VK_INSTANCE_LAYERS"), "VK_LAYER_KLAB_capture");
  user = {{"VK_LAYER_PATH", "/a"}, {"VK_INSTANCE_LAYERS", "VK_LAYER_X"}};
  set = layer_environment("/k", get);
  EXPECT_EQ(set.at("VK_LAYER_PATH"), "/a:/k");
  EXPECT_EQ(set.count("VK_ADD_LAYER_PATH"), 0u);
  EXPECT_EQ(set.at("VK_INSTANCE_LAYERS"), "VK_LAYER_X:VK_LAYER_KLAB_capture");
}

}  // namespace
}  // namespace klab::capture
