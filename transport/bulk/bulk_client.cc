#include "transport/bulk/bulk_client.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

#include "transport/bulk/bulk_stream.h"
#include "transport/net/name_resolver.h"
#include "transport/net/tcp.h"

namespace mobula::internal {
namespace {

constexpr std::size_t response_bytes = 16;  // numbers before a header

}  // namespace

class BulkClient::Impl : public std::enable_shared_from_this<BulkClient::Impl> {
 public:
  Impl(EventLoop& loop, BulkTarget target, BulkClientOptions options)
      : loop_(loop),
        target_(std::move(target)),
        options_(options),
        check_timer_(loop, [this] { check(); }) {}

  Result<BulkFetchId> fetch(BulkFetch fetch);
  void cancel(BulkFetchId id);
  void close();
  std::size_t fetches() const { return fetches_.size(); }
  std::uint64_t received() const { return received_before_ + (reader_ ? reader_->received() : 0); }

 private:
  enum class Stage { closed, resolving, connecting, greeting, open };
  struct Fetch {
    BulkFetch what;
    bool abandoned = false;  // no callback; its bytes are discarded
    std::span<std::byte> space;
    std::uint64_t length = 0;
    std::uint64_t received = 0;
  };
  using FetchRow = std::map<std::uint64_t, Fetch>::iterator;

  void start();
  void connect(const SocketAddress& address);
  void on_ready(Readiness readiness);
  Result<void> greet();
  Result<void> read();
  Result<std::span<std::byte>> destination(std::size_t size);
  Result<void> on_frame(const BulkFrame& frame);
  Result<void> on_response(FetchRow row, std::span<const std::byte> rest);
  Result<void> on_data(std::size_t size);
  Result<void> on_failed(FetchRow row, std::span<const std::byte> rest);
  void put_request(std::uint64_t number, Fetch& fetch);
  void abandon(std::uint64_t number, Fetch& fetch);
  void finish(FetchRow row, const Result<void>& result);
  Result<void> write();
  void check();
  void drop_connection();
  void end_all(const Failure& why);

  EventLoop& loop_;
  const BulkTarget target_;
  const BulkClientOptions options_;
  Timer check_timer_;
  bool destroyed_ = false;

  Stage stage_ = Stage::closed;
  std::uint64_t attempt_ = 0;  // number of the connection, to recognize late replies
  std::unique_ptr<NameResolver> resolver_;
  Fd socket_;
  Watch watch_;
  BulkHello hello_;
  std::array<std::byte, BulkWelcome::size> welcome_{};
  std::size_t welcome_filled_ = 0;
  std::unique_ptr<BulkReader> reader_;
  std::unique_ptr<BulkWriter> writer_;
  Time since_;  // time of the last progress
  std::uint64_t moved_ = 0;
  std::uint64_t received_before_ = 0;  // bytes of earlier connections

  std::uint64_t next_number_ = 1;
  std::map<std::uint64_t, Fetch> fetches_;
  std::map<std::uint64_t, Fetch> ending_;  // fetches of a closed connection, without callback yet
  std::optional<std::uint64_t> current_;   // fetch whose body is being received
  std::optional<Failure> trouble_;         // to be reported from the loop
};

Result<BulkFetchId> BulkClient::Impl::fetch(BulkFetch what) {
  if (what.request.size() > bulk_message_bytes) {
    return failure(ErrorCode::invalid_argument,
                   fmt::format("fetch from {}: a request has at most {} bytes, this one {}",
                               target_.address, bulk_message_bytes, what.request.size()));
  }
  if (fetches_.size() >= options_.max_fetches) {
    return failure(ErrorCode::resource_exhausted,
                   fmt::format("fetch from {}: {} fetches are under way, which is the limit",
                               target_.address, fetches_.size()));
  }
  if (fetches_.empty()) since_ = monotonic_now();
  const std::uint64_t number = next_number_++;
  const auto row = fetches_.emplace(number, Fetch{.what = std::move(what), .space = {}}).first;
  if (stage_ == Stage::open) {
    put_request(number, row->second);
  } else if (stage_ == Stage::closed && !trouble_) {
    start();
  }
  return BulkFetchId{number};
}

void BulkClient::Impl::start() {
  since_ = monotonic_now();
  check_timer_.arm(since_ + check_interval);
  ++attempt_;
  const auto address = Address::parse(target_.address);
  if (!address || address->is_path()) {
    trouble_ = address
                   ? failure(ErrorCode::invalid_argument,
                             fmt::format("fetch from {}: bulk bytes go over TCP", target_.address))
                   : address.error();
    check_timer_.arm(since_);
    return;
  }
  if (const auto numeric = address->numeric()) return connect(*numeric);
  stage_ = Stage::resolving;
  if (!resolver_) resolver_ = std::make_unique<NameResolver>(loop_);
  const auto answered = [this, attempt = attempt_](const Result<SocketAddress>& found) {
    const auto self = shared_from_this();
    if (attempt != attempt_ || stage_ != Stage::resolving) return;
    if (found) return connect(*found);
    end_all(found.error());
  };
  if (auto queued = resolver_->resolve(*address, answered); !queued) {
    trouble_ = queued.error();
    check_timer_.arm(since_);
  }
}

void BulkClient::Impl::connect(const SocketAddress& address) {
  stage_ = Stage::connecting;
  auto socket = begin_connect(address);
  auto watch = socket ? loop_.watch(socket->get(), Interest::write,
                                    [this](Readiness readiness) { on_ready(readiness); })
                      : Result<Watch>(socket.error());
  if (!watch) {
    trouble_ = watch.error();
    check_timer_.arm(since_);
    return;
  }
  socket_ = std::move(socket).value();
  watch_ = std::move(watch).value();
}

void BulkClient::Impl::on_ready(Readiness readiness) {
  const auto self = shared_from_this();
  Result<void> done;
  if (stage_ == Stage::connecting) {
    if (const int error = connect_error(socket_); error != 0) {
      return end_all(errno_failure(fmt::format("connect to {}", target_.address), error));
    }
    stage_ = Stage::greeting;
    welcome_filled_ = 0;
    received_before_ = received();
    reader_ = std::make_unique<BulkReader>(bulk_message_bytes + response_bytes, true);
    writer_ = std::make_unique<BulkWriter>();
    moved_ = 0;
    hello_ = {target_.token, random_secret()};
    writer_->put_raw(hello_.encode());
  }
  const std::uint64_t attempt = attempt_;
  if (readiness.readable) done = stage_ == Stage::greeting ? greet() : read();
  if (destroyed_ || attempt != attempt_ || stage_ == Stage::closed) return;
  if (done) done = write();
  if (!done) end_all(done.error());
}

Result<void> BulkClient::Impl::greet() {
  const auto whole = read_into(socket_.get(), welcome_, welcome_filled_);
  if (!whole) {
    return failure(whole.error().code,
                   fmt::format("fetch from {}: the server closed the connection at the hello; the "
                               "token may have expired",
                               target_.address));
  }
  if (!*whole) return {};
  const auto welcome = BulkWelcome::decode(welcome_);
  if (!welcome) return welcome.error();
  if (welcome->sealed != target_.key.has_value()) {
    return failure(ErrorCode::permission_denied,
                   fmt::format("fetch from {}: the server {} seal bytes, contrary to the agreement",
                               target_.address, welcome->sealed ? "would" : "would not"));
  }
  if (target_.key) {
    const auto keys = BulkKeys::derive(*target_.key, hello_.salt, welcome->salt);
    reader_->open_with(keys.from_server);
    writer_->seal_with(keys.from_client);
  }
  stage_ = Stage::open;
  since_ = monotonic_now();
  for (auto& [number, fetch] : fetches_) put_request(number, fetch);
  return {};
}

void BulkClient::Impl::put_request(std::uint64_t number, Fetch& fetch) {
  std::vector<std::byte> payload;
  put_number(payload, number);
  payload.insert(payload.end(), fetch.what.request.begin(), fetch.what.request.end());
  fetch.what.request = {};
  writer_->put(BulkFrameType::request, payload);
  watch_.set_interest(Interest::read_write);
}

Result<void> BulkClient::Impl::read() {
  const std::uint64_t attempt = attempt_;
  for (int i = 0; i < max_frames_at_once; ++i) {
    auto frame =
        reader_->next(socket_.get(), [this](std::size_t size) { return destination(size); });
    if (!frame) return frame.error();
    if (!*frame) return {};
    if (auto good = on_frame(**frame); !good) return good;
    if (destroyed_ || attempt != attempt_ || stage_ != Stage::open) return {};
  }
  return {};
}

Result<std::span<std::byte>> BulkClient::Impl::destination(std::size_t size) {
  const auto row = current_ ? fetches_.find(*current_) : fetches_.end();
  if (row == fetches_.end() || size == 0 || size > row->second.length - row->second.received) {
    return failure(ErrorCode::corrupt, "a bulk server sent data that it did not announce");
  }
  const Fetch& fetch = row->second;
  if (fetch.abandoned) return std::span<std::byte>();
  return fetch.space.subspan(static_cast<std::size_t>(fetch.received), size);
}

Result<void> BulkClient::Impl::on_frame(const BulkFrame& frame) {
  if (frame.type == BulkFrameType::data) return on_data(frame.payload.size());
  std::span<const std::byte> rest = frame.payload;
  const auto number = take_number(rest);
  const auto row = number ? fetches_.find(*number) : fetches_.end();
  if (row == fetches_.end()) {
    return failure(ErrorCode::corrupt, "bulk server sent a reply without a request");
  }
  if (frame.type == BulkFrameType::response) return on_response(row, rest);
  if (frame.type == BulkFrameType::failed) return on_failed(row, rest);
  return failure(ErrorCode::corrupt, "a bulk frame that only clients send came from a server");
}

Result<void> BulkClient::Impl::on_response(FetchRow row, std::span<const std::byte> rest) {
  const auto length = take_number(rest);
  if (!length || current_ || row->second.length > 0) {
    return failure(ErrorCode::corrupt, "a bulk server began a reply within another reply");
  }
  const std::uint64_t number = row->first;
  current_ = number;
  row->second.length = *length;
  if (!row->second.abandoned) {
    // Moved out, because the callback may end the fetch.
    const auto on_header = std::move(row->second.what.on_header);
    const std::uint64_t attempt = attempt_;
    auto space = on_header(rest, *length);
    if (destroyed_ || attempt != attempt_) return {};
    if (row->second.abandoned) {
      // The owner cancelled the fetch in the callback.
    } else if (space) {
      MOBULA_CHECK(space->size() == *length, "space for exactly the body of a fetch");
      row->second.space = *space;
    } else {
      const auto on_done = std::move(row->second.what.on_done);
      abandon(number, row->second);
      on_done(space.error());
      if (destroyed_ || attempt != attempt_) return {};
    }
  }
  if (*length > 0) return {};
  current_.reset();
  finish(fetches_.find(number), {});
  return {};
}

Result<void> BulkClient::Impl::on_data(std::size_t size) {
  const auto row = fetches_.find(*current_);  // place() has checked it
  Fetch& fetch = row->second;
  fetch.received += size;
  if (fetch.received < fetch.length) return {};
  current_.reset();
  finish(row, {});
  return {};
}

Result<void> BulkClient::Impl::on_failed(FetchRow row, std::span<const std::byte> rest) {
  const auto code = rest.empty() ? 0U : static_cast<unsigned>(rest.front());
  if (code < static_cast<unsigned>(ErrorCode::not_found) ||
      code > static_cast<unsigned>(ErrorCode::permission_denied)) {
    return failure(ErrorCode::corrupt, "a bulk server failed without a reason");
  }
  if (current_ == row->first) current_.reset();
  const auto text = rest.subspan(1);
  finish(row, failure(static_cast<ErrorCode>(code),
                      std::string(reinterpret_cast<const char*>(text.data()), text.size())));
  return {};
}

void BulkClient::Impl::finish(FetchRow row, const Result<void>& result) {
  const auto on_done = std::move(row->second.what.on_done);
  const bool notifies = !row->second.abandoned;
  fetches_.erase(row);
  if (notifies && on_done) on_done(result);
}

// The connection still receives the rest of the reply and its end.
void BulkClient::Impl::abandon(std::uint64_t number, Fetch& fetch) {
  fetch.abandoned = true;
  fetch.space = {};
  fetch.what = {};
  if (current_ == number) reader_->abandon_destination();
  std::vector<std::byte> payload;
  put_number(payload, number);
  writer_->put(BulkFrameType::cancel, payload);
  watch_.set_interest(Interest::read_write);
}

void BulkClient::Impl::cancel(BulkFetchId id) {
  ending_.erase(id.value);
  const auto row = fetches_.find(id.value);
  if (row == fetches_.end() || row->second.abandoned) return;
  if (stage_ == Stage::open) {
    abandon(id.value, row->second);
  } else {
    fetches_.erase(row);
  }
}

Result<void> BulkClient::Impl::write() {
  if (auto flushed = writer_->flush(socket_.get()); !flushed) return flushed;
  watch_.set_interest(writer_->idle() ? Interest::read : Interest::read_write);
  return {};
}

void BulkClient::Impl::check() {
  const auto self = shared_from_this();
  if (trouble_) return end_all(Failure(*trouble_));
  if (stage_ == Stage::closed) return;
  const Time now = monotonic_now();
  const std::uint64_t moved = reader_ ? reader_->received() + writer_->sent() : 0;
  const bool open = stage_ == Stage::open;
  const bool stopped = loop_.last_turn().gap > peer_gap_threshold;
  if (stopped || (open && moved != moved_)) since_ = now;
  moved_ = moved;
  const Duration silent = now - since_;
  if (fetches_.empty()) {
    if (silent > options_.idle_timeout || !open) return drop_connection();
  } else if (silent > (open ? options_.silence_timeout : options_.connect_timeout)) {
    return end_all(failure(ErrorCode::timed_out,
                           fmt::format("fetch from {}: the server {} for {} ms", target_.address,
                                       open ? "was silent" : "did not reply", silent / 1ms)));
  }
  check_timer_.arm(now + check_interval);
}

void BulkClient::Impl::drop_connection() {
  ++attempt_;
  stage_ = Stage::closed;
  check_timer_.disarm();
  watch_.reset();
  socket_.reset();
  // A caller up the stack may use the reader and the writer; the next connection replaces them.
  current_.reset();
  trouble_.reset();
}

void BulkClient::Impl::end_all(const Failure& why) {
  const Failure reason = why;
  drop_connection();
  ending_ = std::exchange(fetches_, {});
  while (!ending_.empty()) {
    const auto ended = ending_.extract(ending_.begin());
    const Fetch& fetch = ended.mapped();
    if (!fetch.abandoned && fetch.what.on_done) fetch.what.on_done(reason);
  }
}

void BulkClient::Impl::close() {
  destroyed_ = true;
  drop_connection();
  resolver_.reset();
  fetches_.clear();
  ending_.clear();
}

BulkClient::BulkClient(EventLoop& loop, BulkTarget target, BulkClientOptions options)
    : impl_(std::make_shared<Impl>(loop, std::move(target), options)) {}

BulkClient::~BulkClient() { impl_->close(); }

Result<BulkFetchId> BulkClient::fetch(BulkFetch fetch) { return impl_->fetch(std::move(fetch)); }
void BulkClient::cancel(BulkFetchId id) { impl_->cancel(id); }
std::size_t BulkClient::fetches() const { return impl_->fetches(); }
std::uint64_t BulkClient::received() const { return impl_->received(); }

}  // namespace mobula::internal
