// SPDX-License-Identifier: Apache-2.0
// A shim that lies: whatever arrives, klab says so, makes no bundle and allocates nothing for it.
#include "base/subprocess.h"
#include "capture/spirv.h"
#include "capture/test_support.h"
#include "shim/abi/abi.h"

namespace klab::capture {
namespace {

// A program that speaks the protocol badly. The layout of the records is abi.h's (natural alignment).
constexpr char kClient[] = R"py(
import os, random, socket, struct, sys
def connect():
    s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    s.connect(os.environ["KLAB_CAPTURE_SOCKET"])
    return s
def packet(kind, body): return struct.pack("<II", kind, 8 + len(body)) + body
def hello(version=2, length=3, exe=b"exe"): return packet(1, struct.pack("<IIqQII", version, 48, os.getpid(), 0, length, 0) + exe)
def greet():
    s = connect()
    s.send(hello())
    s.recv(65536)
    return s
CODE = struct.pack("<5I", 0x07230203, 0x10000, 0, 1, 0)
# XXH3-128 of twenty zero bytes, which the ring begins with.
ZEROS = (0x16773ceb7fe497b1, 0x9098098c9951f3d7)
def kernel(code_size=20, name_length=1, spec=0):
    return packet(3, struct.pack("<IIQQQQIIIIIIII", 0, 1, 7, *ZEROS, code_size, 0, 0, 0, name_length, 4, 0, 0, spec) + b"k" + b"main")
def begin(push=0, kernel=0): return packet(5, struct.pack("<IIIIQQ6III", 0, kernel, 1, 0, 1, 1, 1, 1, 1, 0, 0, 0, push, 0))
def region(bytes, number=0, name=0): return packet(10, struct.pack("<IIQQQQQQIIII", number, 0, 0, bytes, 0, 0, 0, 0, 0, 0, name, 0))
def data(kind, id, offset, slot, n): return packet(12, struct.pack("<IIQII", kind, id, offset, slot, n))
def size(n): return packet(11, struct.pack("<QII", n, 0, 0))
def listing(kind, count, body=b""): return packet(kind, struct.pack("<II", 0, count) + body)
def launch(have, said): return packet(18, struct.pack("<8I", 1, 1, 1, 0, 0, 0, 0, said) + bytes(have))
def texture(region, offset=0, resource=0, sampling=0):
    return packet(21, struct.pack("<7Q8I", 1, offset, 1, 1, 1, 0, 0, region, 0, 1, 0, resource, 0, sampling, 0))
CODE_DATA = data(1, 0, 0, 0, 20)
END = packet(13, struct.pack("<d", 1.0))
LAST = packet(17, struct.pack("<dII", 1.0, 1, 0))
lies = [
  [b"x"], [struct.pack("<II", 1, 9999)], [packet(5, b"")], [END], [hello(version=99)], [hello(length=0xffffffff)], [hello()] * 2,
]
after = [
  [kernel(code_size=1 << 60)], [kernel(name_length=0xffffffff)], [kernel(spec=1024)], [begin()], [kernel(), begin()],
  [kernel(), data(1, 0, 0, 0xffffffff, 4)], [kernel(), data(1, 0, 0, 0, 0xffffffff)], [kernel(), data(1, 0, 4, 0, 4)],
  [kernel(), data(1, 0, 0, 0, 20)], [data(2, 0, 0, 0, 4)], [listing(4, 0xffffffff)], [listing(16, 1)], [listing(6, 3, b"123")],
  [END, LAST], [LAST], [packet(14, struct.pack("<QIIII", 1, 0, 0xffff, 0xffff, 0))], [region(1 << 60)], [size(1 << 63)],
  [packet(99, b"future")], [packet(64, b"")],
  [packet(2, struct.pack("<6I16x4I", 0, 2, 0, 0, 13000, 0, 0, 0, 0, 9))],
  [kernel(), CODE_DATA, begin(), launch(8, 0xffffffff)], [kernel(), CODE_DATA, begin(), launch(8, 9)],
  [kernel(), CODE_DATA, begin(), launch(8, 8), listing(19, 1, struct.pack("<II", 4, 8))],
  [kernel(), CODE_DATA, begin(), launch(8, 8), listing(19, 2, struct.pack("<IIII", 4, 4, 0, 4))],
  [kernel(), CODE_DATA, begin(), launch(8, 8), listing(19, 0xffffffff)],
  [kernel(), CODE_DATA, begin()] + [packet(20, struct.pack("<qII", 1, 1, 0) + b"a")] * 300,
  [kernel(), CODE_DATA, begin(), packet(20, struct.pack("<qII", 1, 99, 0))],
  [kernel(), CODE_DATA, begin(), texture(0)], [kernel(), CODE_DATA, begin(), size(8), region(8), texture(0, offset=9)],
  [kernel(), CODE_DATA, begin(), size(8), region(8), texture(0, sampling=0xffffffff)],
  [kernel(), CODE_DATA, begin(), size(8), region(8), texture(0, resource=0xffffffff)],
  [packet(18, struct.pack("<8I", *[0] * 8))], [texture(0)],
]
mode = sys.argv[1]
def send(s, packets):
    for p in packets:
        try: s.send(p)
        except OSError: return
    s.settimeout(0.05)
    try:
        while s.recv(65536): pass
    except OSError: pass
if mode == "lies":
    for packets in lies: send(connect(), packets)
    for packets in after: send(greet(), packets)
if mode == "random":
    r = random.Random(int(sys.argv[2]))
    for _ in range(40):
        s = greet()
        try:
            for _ in range(200):
                body = bytes(r.choice([0, 0, 0, 1, 255, r.randrange(256)]) for _ in range(r.randrange(160)))
                s.send(packet(r.choice([2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21]), body))
        except OSError: pass
print("client done")
)py";

Target client(std::vector<std::string> arguments) {
  Target t;
  t.argv = {"python3", "-c", kClient};
  t.argv.insert(t.argv.end(), arguments.begin(), arguments.end());
  t.quiet = true;
  t.limit = std::chrono::seconds(100);
  return t;
}

class Hostile : public ::testing::TestWithParam<std::vector<std::string>> {};
TEST_P(Hostile, shim_makes_no_bundle_and_no_damage) {
  if (find_program("python3").empty()) GTEST_SKIP() << "needs python3";
  // The layouts that the client writes by hand.
  static_assert(sizeof(klab_hello) == 40 && sizeof(klab_kernel) == 80 && sizeof(klab_capture_begin) == 72);
  static_assert(sizeof(klab_region) == 80 && sizeof(klab_data_record) == 32 && sizeof(klab_size) == 24);
  static_assert(sizeof(klab_device) == 64 && sizeof(klab_launch) == 40 && sizeof(klab_attribute) == 24);
  static_assert(sizeof(klab_texture) == 96);
  static_assert(sizeof(klab_text) == 32 && sizeof(klab_submitted) == 24 && sizeof(klab_list) == 16);
  Folder f;
  const auto done = capture(request(f, client(GetParam())));
  ASSERT_FALSE(done);
  EXPECT_NE(done.error().code, ErrorCode::internal);
  EXPECT_TRUE(f.empty());
  const auto list = trace(client(GetParam()));
  ASSERT_TRUE(list) << text_of(list.error());
  EXPECT_EQ(list->exit_code, 0);
  EXPECT_FALSE(list->warnings.empty());
}
INSTANTIATE_TEST_SUITE_P(Lies, Hostile,
                         ::testing::Values(std::vector<std::string>{"lies"},
                                           std::vector<std::string>{"random", "1"},
                                           std::vector<std::string>{"random", "2"}));

TEST(Spirv, damaged_modules_have_no_workgroup_size_or_a_plausible_one) {
  const auto read = read_file(KLAB_BUILD_DIR "/examples/vulkan/spec_constants.spv");
  ASSERT_TRUE(read);
  const auto bytes = std::as_bytes(std::span(*read));
  bundle::SpecConstant constant{0, Bytes(std::vector<std::byte>(4, std::byte{1}))};
  std::uint32_t seed = 1;
  for (int i = 0; i < 3000; ++i) {
    std::vector<std::byte> code(bytes.begin(), bytes.end());
    for (int k = 0; k < 3; ++k) {
      seed = seed * 1664525u + 1013904223u;
      code[seed / 7 % code.size()] ^= static_cast<std::byte>(1u << (seed >> 29));
    }
    if (i % 5 == 0) code.resize(seed % code.size() / 4 * 4);
    (void)workgroup_size(code, "main", {constant});
  }
  EXPECT_EQ(workgroup_size({}, "main", {}), (bundle::Dim3{0, 0, 0}));
  EXPECT_EQ(workgroup_size(bytes, "other", {}), (bundle::Dim3{0, 0, 0}));
}

}  // namespace
}  // namespace klab::capture
