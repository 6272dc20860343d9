// SPDX-License-Identifier: Apache-2.0
#include "serve/server.h"

#include <poll.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <array>
#include <charconv>
#include <deque>
#include <list>

#include <boost/asio.hpp>
#include <boost/beast.hpp>
#include <fmt/format.h>

#include "base/ids.h"
#include "serve/assets.h"
#include "serve/gate.h"
#include "serve/pump.h"

namespace klab::serve {
namespace {

namespace net = boost::asio;
namespace beast = boost::beast;
namespace http = beast::http;
using boost::system::error_code;
using net::use_awaitable;
using Request = http::request<http::string_body>;
using Response = http::response<http::string_body>;

constexpr auto kStrangerTime = std::chrono::seconds(10);  // for a header, from who has not shown the token
constexpr auto kIdleTime = std::chrono::seconds(120);
constexpr auto kBodyTime = std::chrono::seconds(60);
constexpr auto kWriteTime = std::chrono::seconds(30);
constexpr auto kPingEvery = std::chrono::seconds(10);
constexpr std::size_t kMostHeader = 16 << 10, kMostQueued = 8u << 20;
constexpr unsigned kCallThreads = 32;

std::string policy(const std::string& nonce) {
  return fmt::format(
      "default-src 'none'; script-src 'self'; style-src 'self' 'nonce-{}'; img-src 'self' data:; connect-src 'self'; "
      "font-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
      nonce);
}

std::string_view view(beast::string_view text) { return {text.data(), text.size()}; }

/// What listeners of one stream wait for. Written by the pump's threads, read by the connection.
struct Mailbox {
  explicit Mailbox(net::any_io_executor executor) : timer(executor) {}
  std::mutex mutex;
  std::deque<std::string> frames;
  std::size_t bytes = 0;
  bool left = false;  // the connection is gone, or too slow
  net::steady_timer timer;  // on the connection's thread

  bool put(const std::string& frame, const std::shared_ptr<Mailbox>& self) {
    const std::lock_guard lock(mutex);
    if (left || bytes + frame.size() > kMostQueued) return !(left = true);
    frames.push_back(frame), bytes += frame.size();
    net::post(timer.get_executor(), [self] { self->timer.cancel(); });
    return true;
  }
  std::deque<std::string> take() {
    const std::lock_guard lock(mutex);
    bytes = 0;
    return std::exchange(frames, {});
  }
  bool over() {
    const std::lock_guard lock(mutex);
    return left;
  }
  void leave() {
    const std::lock_guard lock(mutex);
    left = true;
  }
};

/// One connection, as the others see it.
struct Peer {
  bool trusted = false;
  std::function<void()> drop;
};

class Server {
 public:
  Server(const Api& api, Pump& pump, const ServeOptions& options)
      : api_(api), pump_(pump), options_(options), calls_(kCallThreads) {}

  /// Takes back the calls that still run, and waits for them.
  void stop() {
    stopping_ = true;
    calls_.join();
  }

  Status run(const std::function<void(int)>& ready, const std::function<bool()>& stop) {
    error_code ec;
    net::ip::tcp::acceptor tcp(io_);
    const net::ip::tcp::endpoint at(net::ip::address_v4::loopback(), static_cast<unsigned short>(options_.port));
    tcp.open(at.protocol(), ec);
    if (!ec) tcp.set_option(net::socket_base::reuse_address(true), ec);
    if (!ec) tcp.bind(at, ec);
    if (!ec) tcp.listen(512, ec);
    if (ec)
      return fail(ErrorCode::io_failed,
                  fmt::format("cannot listen on port {} of 127.0.0.1: {}", options_.port, ec.message()),
                  "another port, or 0 for a free one");
    net::local::stream_protocol::acceptor local(io_);
    if (!options_.socket.empty()) KLAB_TRY_VOID(open_socket(local));
    accept(tcp);
    if (local.is_open()) accept(local);
    ready(tcp.local_endpoint().port());
    watch(stop);
    io_.run();
    if (!options_.socket.empty()) ::unlink(options_.socket.c_str());
    return {};
  }

 private:
  Status open_socket(net::local::stream_protocol::acceptor& local) {
    const std::string path = options_.socket.string();
    if (path.size() >= sizeof(sockaddr_un::sun_path))
      return fail(ErrorCode::usage, path + " is too long for a socket's path", "a shorter path");
    struct stat st {};
    if (::lstat(path.c_str(), &st) == 0) {
      if (!S_ISSOCK(st.st_mode)) return fail(ErrorCode::usage, path + " is there and no socket", "another path");
      ::unlink(path.c_str());
    }
    error_code ec;
    local.open(net::local::stream_protocol(), ec);
    const mode_t before = ::umask(0177);
    if (!ec) local.bind(path, ec);
    ::umask(before);
    if (!ec) local.listen(512, ec);
    if (ec)
      return fail(ErrorCode::io_failed, fmt::format("cannot listen at {}: {}", path, ec.message()),
                  "is its folder there, and yours?");
    return {};
  }

  void watch(const std::function<bool()>& stop) {
    watch_timer_.expires_after(std::chrono::milliseconds(100));
    watch_timer_.async_wait([this, stop](error_code) {
      if (!stop()) return watch(stop);
      stopping_ = true;
      io_.stop();
    });
  }

  template <class Protocol>
  void accept(net::basic_socket_acceptor<Protocol>& acceptor) {
    acceptor.async_accept([this, &acceptor](error_code ec, typename Protocol::socket socket) {
      if (!ec) admit<Protocol>(std::move(socket));
      if (ec == net::error::no_descriptors) {  // of this process: some of ours must end first
        auto timer = std::make_shared<net::steady_timer>(io_, std::chrono::milliseconds(200));
        timer->async_wait([this, &acceptor, timer](error_code) { accept(acceptor); });
        return;
      }
      accept(acceptor);
    });
  }

  template <class Protocol>
  void admit(typename Protocol::socket socket) {
    if (peers_.size() >= kMostConnections) {
      const auto stranger = std::find_if(peers_.begin(), peers_.end(), [](const auto& p) { return !p->trusted; });
      if (stranger == peers_.end()) return;  // all are the user's own
      const auto drop = (*stranger)->drop;
      peers_.erase(stranger);
      drop();
    }
    auto stream = std::make_shared<beast::basic_stream<Protocol>>(std::move(socket));
    auto peer = std::make_shared<Peer>();
    peer->drop = [weak = std::weak_ptr(stream)] {
      if (const auto alive = weak.lock()) alive->close();
    };
    peers_.push_back(peer);
    net::co_spawn(
        io_,
        [this, stream, peer]() -> net::awaitable<void> {
          try {
            co_await converse(*stream, *peer);
          } catch (const std::exception&) {  // closed, late or nonsense: nothing is owed to it
          }
          peers_.remove(peer);
        },
        net::detached);
  }

  template <class Stream>
  net::awaitable<void> converse(Stream& stream, Peer& peer) {
    beast::flat_buffer buffer(kMostBody + kMostHeader);
    for (;;) {
      http::request_parser<http::string_body> parser;
      parser.header_limit(kMostHeader);
      parser.body_limit(kMostBody);
      stream.expires_after(peer.trusted ? std::chrono::seconds(kIdleTime) : kStrangerTime);
      error_code ec;
      co_await http::async_read_header(stream, buffer, parser, net::redirect_error(use_awaitable, ec));
      if (ec && ec != http::error::body_limit) co_return;
      auto refused = ec ? std::optional(too_much()) : check(parser);
      if (!refused) {
        stream.expires_after(kBodyTime);
        if (view(parser.get()[http::field::expect]) == "100-continue") {
          constexpr std::string_view kGoOn = "HTTP/1.1 100 Continue\r\n\r\n";
          co_await net::async_write(stream, net::buffer(kGoOn.data(), kGoOn.size()), use_awaitable);
        }
        co_await http::async_read(stream, buffer, parser, net::redirect_error(use_awaitable, ec));
        if (ec == http::error::body_limit) refused = too_much();
        else if (ec) co_return;
      }
      if (refused) {  // what is left of its body is not read
        Response response = refusal_of(*refused);
        stream.expires_after(kWriteTime);
        co_await http::async_write(stream, response, use_awaitable);
        co_await see_off(stream);
        co_return;
      }
      const Request request = parser.release();
      const std::string_view target = view(request.target());
      const bool api = target.starts_with("/api/");
      peer.trusted = peer.trusted || api;  // check() has seen the token
      if (target.substr(0, target.find('?')) == "/api/stream") {
        co_await send_events(stream, target);
        co_return;
      }
      stream.expires_never();
      Response response;
      if (api)
        response = co_await answer(request, stream.socket().native_handle());
      else
        response = page_file(request);
      response.keep_alive(request.keep_alive());
      response.prepare_payload();
      if (request.method() == http::verb::head) response.body().clear();
      stream.expires_after(kWriteTime);
      co_await http::async_write(stream, response, use_awaitable);
      if (!request.keep_alive()) co_return;
    }
  }

  /// Closed at once, with its body unread, a client might never see why.
  template <class Stream>
  static net::awaitable<void> see_off(Stream& stream) {
    stream.socket().shutdown(net::socket_base::shutdown_send);
    std::array<char, 16384> rest;
    stream.expires_after(std::chrono::seconds(2));
    for (std::size_t read = 0; read < (4u << 20);)
      read += co_await stream.async_read_some(net::buffer(rest), use_awaitable);
  }

  std::optional<Refusal> check(http::request_parser<http::string_body>& parser) const {
    const auto& request = parser.get();
    Asked asked{.method = view(request.method_string()),
                .target = view(request.target()),
                .host = view(request[http::field::host]),
                .origin = view(request[http::field::origin]),
                .fetch_site = view(request["Sec-Fetch-Site"]),
                .authorization = view(request[http::field::authorization]),
                .content_type = view(request[http::field::content_type]),
                .content_length = {}};
    if (const auto length = parser.content_length()) asked.content_length = *length;
    return refusal(asked, options_.token);
  }

  static void common_headers(Response& response) {
    response.set("X-Content-Type-Options", "nosniff");
    response.set("X-Frame-Options", "DENY");
    response.set("Referrer-Policy", "no-referrer");
    response.set("Cross-Origin-Opener-Policy", "same-origin");
    response.set("Cross-Origin-Resource-Policy", "same-origin");
  }

  static Response reply(unsigned status, unsigned version, std::string_view type, std::string body) {
    Response response{http::int_to_status(status), version};
    response.set(http::field::content_type, beast::string_view(type.data(), type.size()));
    response.set(http::field::cache_control, "no-store");
    common_headers(response);
    response.body() = std::move(body);
    return response;
  }

  static Refusal too_much() {
    return {413, "the body is too long", fmt::format("at most {} MiB", kMostBody >> 20)};
  }

  static Response refusal_of(const Refusal& refused) {
    Response response = reply(refused.status, 11, "application/json",
                              error_body("not_allowed", refused.what, refused.hint));
    if (refused.status == 401) response.set(http::field::www_authenticate, "Bearer");
    response.keep_alive(false);
    response.prepare_payload();
    return response;
  }

  /// Work is done on threads of its own; a client that goes away takes it back.
  net::awaitable<Response> answer(const Request& request, int fd) {
    const std::string_view target = view(request.target());
    if (target == "/api/about") {
      Json about = api_.about();
      about["last_event"] = co_await on_call_thread([this] { return pump_.newest(); });
      co_return reply(200, request.version(), "application/json", about.dump());
    }
    if (target != "/api/call" || request.method() != http::verb::post)
      co_return reply(404, request.version(), "application/json",
                      error_body("not_found", "there is no such address", "/api/about, /api/call, /api/stream"));
    if (calls_waiting_ >= 4 * kCallThreads)
      co_return reply(503, request.version(), "application/json",
                      error_body("cap_reached", "too many calls at once", "wait for some of them"));
    ++calls_waiting_;
    std::string body = co_await on_call_thread([this, &request, fd] {
      return api_.answer(request.body(), [this, fd] { return stopping_ || gone(fd); });
    });
    --calls_waiting_;
    co_return reply(200, request.version(), "application/json", std::move(body));
  }

  static bool gone(int fd) {
    pollfd p{fd, POLLRDHUP, 0};
    return ::poll(&p, 1, 0) > 0 && (p.revents & (POLLRDHUP | POLLHUP | POLLERR)) != 0;
  }

  template <class F>
  net::awaitable<std::invoke_result_t<F>> on_call_thread(F work) {
    using T = std::invoke_result_t<F>;
    net::steady_timer done(io_, net::steady_timer::time_point::max());
    T result{};
    bool over = false;
    net::post(calls_, [&] {
      result = work();
      net::post(io_, [&] {
        over = true;
        done.cancel();
      });
    });
    while (!over) {
      error_code ec;
      co_await done.async_wait(net::redirect_error(use_awaitable, ec));
    }
    co_return result;
  }

  Response page_file(const Request& request) const {
    std::string_view name = view(request.target());
    name = name.substr(0, name.find_first_of("?#"));
    name = name == "/" ? "index.html" : name.substr(1);
    Asset asset;
    std::string from_disk;
    if (!options_.page.empty()) {
      if (auto text = page_text(name)) {
        from_disk = std::move(*text);
        asset = {.name = name, .type = type_of(name), .plain = from_disk, .packed = {}, .tag = {}};
      }
    } else if (const Asset* found = find_asset(name)) {
      asset = *found;
    }
    if (asset.name.empty()) return reply(404, request.version(), "text/plain; charset=utf-8", "There is no such file.\n");
    const std::string tag = asset.tag.empty() ? "" : fmt::format("\"{}\"", asset.tag);
    if (!tag.empty() && asset.name != "index.html" && view(request[http::field::if_none_match]) == tag) {
      Response response = reply(304, request.version(), asset.type, "");
      response.set(http::field::etag, tag);
      return response;
    }
    std::string text(asset.plain);
    const std::string nonce = new_id(24);
    if (asset.name == "index.html") {
      constexpr std::string_view kPlace = "__CSP_NONCE__";
      for (auto at = text.find(kPlace); at != std::string::npos; at = text.find(kPlace, at + nonce.size()))
        text.replace(at, kPlace.size(), nonce);
    }
    const bool packed =
        !asset.packed.empty() && view(request[http::field::accept_encoding]).find("gzip") != std::string_view::npos;
    if (packed) text = asset.packed;
    Response response = reply(200, request.version(), asset.type, std::move(text));
    if (packed) response.set(http::field::content_encoding, "gzip");
    if (asset.name == "index.html") {
      response.set("Content-Security-Policy", policy(nonce));
    } else {
      response.set("Content-Security-Policy", "default-src 'none'");
      response.set(http::field::cache_control, "no-cache");  // asked for again by its tag
      response.set(http::field::vary, "Accept-Encoding");
      if (!tag.empty()) response.set(http::field::etag, tag);
    }
    return response;
  }

  std::optional<std::string> page_text(std::string_view name) const {
    const auto plain = [](char c) {
      return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' || c == '-' ||
             c == '_' || c == '/';
    };
    if (!std::all_of(name.begin(), name.end(), plain) || name.find("..") != std::string_view::npos ||
        name.starts_with('/'))
      return std::nullopt;
    auto text = read_file(options_.page / std::string(name), 64u << 20);
    return text ? std::optional(std::move(*text)) : std::nullopt;
  }

  template <class Stream>
  net::awaitable<void> send_events(Stream& stream, std::string_view target) {
    std::int64_t after = -1;
    if (const auto at = target.find("after="); at != std::string_view::npos)
      (void)std::from_chars(target.data() + at + 6, target.data() + target.size(), after);
    const auto box = std::make_shared<Mailbox>(stream.get_executor());
    struct Leave {
      Mailbox& box;
      ~Leave() { box.leave(); }
    } leave{*box};
    Json hello = api_.about();
    const std::int64_t newest = co_await on_call_thread([this] { return pump_.newest(); });
    hello["last_event"] = newest;
    std::string text = fmt::format(
        "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nCache-Control: no-store\r\n"
        "X-Content-Type-Options: nosniff\r\nConnection: close\r\n\r\n{}",
        Pump::frame("hello", hello));
    // What was missed may be much: it is read while the first of it is sent.
    net::post(calls_, [this, box, from = after < 0 || after > newest ? newest : after] {
      pump_.listen(from, [box](const std::string& frame) { return box->put(frame, box); });
    });
    for (;;) {
      stream.expires_after(kWriteTime);
      co_await net::async_write(stream, net::buffer(text), use_awaitable);
      text.clear();
      for (const std::string& frame : box->take()) text += frame;
      if (!text.empty()) continue;
      if (box->over() || stopping_) co_return;
      stream.expires_never();
      box->timer.expires_after(kPingEvery);
      error_code ec;
      co_await box->timer.async_wait(net::redirect_error(use_awaitable, ec));
      if (gone(stream.socket().native_handle())) co_return;
      for (const std::string& frame : box->take()) text += frame;
      if (text.empty() && !ec) text = Pump::frame("ping", Json::object());
    }
  }

  const Api& api_;
  Pump& pump_;
  const ServeOptions& options_;
  std::atomic<bool> stopping_{false};
  std::list<std::shared_ptr<Peer>> peers_;  // oldest first; this and what follows: the network's thread only
  unsigned calls_waiting_ = 0;
  net::io_context io_{1};
  net::steady_timer watch_timer_{io_};
  net::thread_pool calls_;
};

}  // namespace

Status serve(const Api& api, const Call& call, const ServeOptions& options,
             const std::function<void(int)>& ready, const std::function<bool()>& stop) {
  if (options.page.empty() && find_asset("index.html") == nullptr)
    return fail(ErrorCode::unsupported, "this build of klab has no page in it",
                "build it with src/serve/page in place, or use the command line");
  auto pump = std::make_unique<Pump>(call);
  Server server(api, *pump, options);
  const Status served = server.run(ready, stop);
  server.stop();
  pump.reset();  // its listeners have timers of the server's
  return served;
}

}  // namespace klab::serve
