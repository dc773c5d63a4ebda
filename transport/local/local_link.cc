#include "transport/local/local_link.h"

#include <fmt/format.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <deque>
#include <iterator>

namespace mobula::internal {
namespace {

constexpr std::size_t read_bytes = 64 * 1024;
// Limits of reads per call, and of frames after which a call reads no more. The loop continues the
// read after it has served its other sources: one peer that sends many small frames must not block
// the others, or the timers.
constexpr int max_reads = 64;
constexpr int max_frames = 64;

}  // namespace

class LocalLink::Stream : public std::enable_shared_from_this<Stream> {
 public:
  Stream(Fd socket, Callbacks callbacks, LocalLinkOptions options)
      : socket_(std::move(socket)), callbacks_(std::move(callbacks)), options_(options) {}

  Result<void> start(EventLoop& loop) {
    auto watch = loop.watch(socket_.get(), Interest::read,
                            [this](Readiness readiness) { on_ready(readiness); });
    if (!watch) return watch.error();
    watch_ = std::move(watch).value();
    return {};
  }

  void close() {
    closed_ = true;
    watch_.reset();
    socket_.reset();
    queue_.clear();
  }

  Result<void> send(std::span<const std::byte> bytes, std::vector<Fd> fds);
  std::size_t queued_bytes() const { return queued_bytes_; }

 private:
  struct Outgoing {
    std::vector<std::byte> bytes;
    std::size_t sent = 0;
    std::vector<Fd> fds;  // until the first byte is sent
  };

  void on_ready(Readiness readiness);
  void read();
  // Returns false if a callback closed the link.
  bool feed(std::span<const std::byte> bytes);
  bool deliver();
  void flush();
  void stop_writing();
  void end(const Failure& why);

  Fd socket_;
  const Callbacks callbacks_;
  const LocalLinkOptions options_;
  Watch watch_;
  bool closed_ = false;
  bool can_write_ = true;

  std::array<std::byte, LocalFrameHeader::size> header_bytes_{};
  std::size_t header_size_ = 0;
  LocalFrameHeader header_;
  std::vector<std::byte> body_;
  std::vector<Fd> fds_;  // received, but not yet delivered with their frame
  int frames_read_ = 0;  // by the latest call of read()

  std::deque<Outgoing> queue_;
  std::size_t queued_bytes_ = 0;
};

void LocalLink::Stream::on_ready(Readiness readiness) {
  const auto self = shared_from_this();
  if (readiness.writable && can_write_) flush();
  if (readiness.readable && !closed_) read();
}

void LocalLink::Stream::read() {
  std::array<std::byte, read_bytes> buffer;
  frames_read_ = 0;
  for (int i = 0; i < max_reads && frames_read_ < max_frames; ++i) {
    const auto got = receive_some(socket_.get(), buffer, fds_, options_.limits.max_fds);
    if (!got) return end(got.error());
    if (got->blocked) return;
    if (got->end) {
      const bool inside = header_size_ > 0;
      return end(failure(ErrorCode::unavailable,
                         inside ? "the process at the other end closed the link inside a frame"
                                : "the process at the other end closed the link"));
    }
    if (!feed(std::span(buffer).first(got->count))) return;
    if (fds_.size() > options_.limits.max_fds) {
      return end(failure(ErrorCode::corrupt, "descriptors arrived that no local frame announced"));
    }
  }
}

bool LocalLink::Stream::feed(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    if (header_size_ < header_bytes_.size()) {
      const std::size_t count = std::min(bytes.size(), header_bytes_.size() - header_size_);
      std::copy_n(bytes.begin(), count, header_bytes_.begin() + static_cast<long>(header_size_));
      header_size_ += count;
      bytes = bytes.subspan(count);
      if (header_size_ < header_bytes_.size()) return true;
      header_ = LocalFrameHeader::read(header_bytes_);
      if (const auto good = header_.check(options_.limits); !good) {
        end(good.error());
        return false;
      }
    }
    // The body grows with the received bytes, not with the announced length.
    const std::size_t count = std::min<std::size_t>(bytes.size(), header_.length - body_.size());
    body_.insert(body_.end(), bytes.begin(), bytes.begin() + static_cast<long>(count));
    bytes = bytes.subspan(count);
    if (body_.size() == header_.length && !deliver()) return false;
  }
  return true;
}

bool LocalLink::Stream::deliver() {
  if (fds_.size() < header_.fd_count) {
    end(failure(ErrorCode::corrupt,
                fmt::format("a local frame announced {} descriptors and brought {}",
                            header_.fd_count, fds_.size())));
    return false;
  }
  LocalFrame frame;
  frame.bytes = std::exchange(body_, {});
  const auto last = fds_.begin() + header_.fd_count;
  frame.fds.assign(std::make_move_iterator(fds_.begin()), std::make_move_iterator(last));
  fds_.erase(fds_.begin(), last);
  header_size_ = 0;
  ++frames_read_;
  if (callbacks_.on_frame) callbacks_.on_frame(std::move(frame));
  return !closed_;
}

Result<void> LocalLink::Stream::send(std::span<const std::byte> bytes, std::vector<Fd> fds) {
  if (closed_ || !can_write_) {
    return failure(ErrorCode::unavailable,
                   "send on a local link: the process at the other end has closed it");
  }
  const LocalFrameHeader header{static_cast<std::uint32_t>(bytes.size()),
                                static_cast<std::uint32_t>(fds.size())};
  if (bytes.size() > options_.limits.max_bytes || fds.size() > options_.limits.max_fds) {
    return failure(
        ErrorCode::invalid_argument,
        fmt::format("send on a local link: {} bytes and {} descriptors are beyond a "
                    "frame's limits of {} and {}",
                    bytes.size(), fds.size(), options_.limits.max_bytes, options_.limits.max_fds));
  }
  if (queued_bytes_ + bytes.size() > options_.max_queued_bytes) {
    return failure(ErrorCode::resource_exhausted,
                   fmt::format("send on a local link: {} bytes wait for a peer that reads slowly; "
                               "the limit is {}",
                               queued_bytes_, options_.max_queued_bytes));
  }
  std::array<std::byte, LocalFrameHeader::size> head;
  header.write(head);
  std::size_t sent = 0;
  if (queue_.empty()) {
    const auto taken = send_some(socket_.get(), head, bytes, fds);
    if (!taken) {
      stop_writing();
      return taken.error();
    }
    sent = *taken;
    if (sent > 0) fds.clear();
  }
  if (sent == head.size() + bytes.size()) return {};
  Outgoing rest;
  if (sent < head.size()) rest.bytes.assign(head.begin() + static_cast<long>(sent), head.end());
  const std::size_t of_body = sent > head.size() ? sent - head.size() : 0;
  rest.bytes.insert(rest.bytes.end(), bytes.begin() + static_cast<long>(of_body), bytes.end());
  rest.fds = std::move(fds);
  queued_bytes_ += rest.bytes.size();
  queue_.push_back(std::move(rest));
  watch_.set_interest(Interest::read_write);
  return {};
}

void LocalLink::Stream::flush() {
  while (!queue_.empty()) {
    Outgoing& next = queue_.front();
    const auto rest = std::span<const std::byte>(next.bytes).subspan(next.sent);
    const auto taken = send_some(socket_.get(), rest, {}, next.fds);
    if (!taken) return stop_writing();
    if (*taken == 0) return;
    next.fds.clear();
    next.sent += *taken;
    queued_bytes_ -= *taken;
    if (next.sent == next.bytes.size()) queue_.pop_front();
  }
  watch_.set_interest(Interest::read);
}

// The bytes that the peer wrote before it closed are still unread. The end of the stream closes the
// link.
void LocalLink::Stream::stop_writing() {
  can_write_ = false;
  queue_.clear();
  queued_bytes_ = 0;
  watch_.set_interest(Interest::read);
  watch_.mark_ready();
}

void LocalLink::Stream::end(const Failure& why) {
  const Failure reason = why;
  close();
  fds_.clear();
  if (callbacks_.on_closed) callbacks_.on_closed(reason);
}

LocalLink::LocalLink(std::shared_ptr<Stream> stream) : stream_(std::move(stream)) {}

LocalLink::~LocalLink() { stream_->close(); }

Result<std::unique_ptr<LocalLink>> LocalLink::open(EventLoop& loop, Fd socket, Callbacks callbacks,
                                                   LocalLinkOptions options) {
  auto stream = std::make_shared<Stream>(std::move(socket), std::move(callbacks), options);
  if (auto started = stream->start(loop); !started) return started.error();
  return std::unique_ptr<LocalLink>(new LocalLink(std::move(stream)));
}

Result<void> LocalLink::send(std::span<const std::byte> bytes, std::vector<Fd> fds) {
  return stream_->send(bytes, std::move(fds));
}

std::size_t LocalLink::queued_bytes() const { return stream_->queued_bytes(); }

Result<std::pair<Fd, Fd>> make_local_pair() {
  std::array<int, 2> ends{};
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0) {
    return errno_failure("make a pair of local sockets", errno);
  }
  return std::pair<Fd, Fd>(Fd(ends[0]), Fd(ends[1]));
}

Result<PeerCredentials> credentials_of(const Fd& socket) {
  ucred credentials{};
  socklen_t size = sizeof(credentials);
  if (::getsockopt(socket.get(), SOL_SOCKET, SO_PEERCRED, &credentials, &size) != 0) {
    return errno_failure("get the peer of a local socket", errno);
  }
  return PeerCredentials{credentials.pid, credentials.uid, credentials.gid};
}

}  // namespace mobula::internal
