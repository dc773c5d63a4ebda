// Cost of each transport path between two processes of this machine, from 8 B to 256 MiB, next to
// the machine's floors: a copy from a warm memfd, one socket, and encryption on one core.
// `mobula-bench-direct` prints all figures, with --bars only the bars, and with --first only the
// first pulls of 256 MiB. Figures are medians over
// several rounds. The ratio to a floor is a median too, and its floor is measured in the same
// round.
#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "bench/measure/child.h"
#include "bench/measure/floors.h"
#include "transport/local/local_link.h"
#include "transport/loop/loop_thread.h"
#include "transport/net/tcp.h"
#include "transport/tensor/blob.h"
#include "transport/tensor/inproc_transport.h"
#include "transport/tensor/receive_pool.h"
#include "transport/tensor/shm/shm_transport.h"
#include "transport/tensor/tcp/tcp_transport.h"

namespace mobula::bench {
namespace {

using namespace mobula::internal;  // NOLINT: a separate program

constexpr std::uint64_t kib = 1024, mib = 1024 * kib;
constexpr std::uint64_t largest = 256 * mib;

enum class Path : std::uint8_t { inproc, shm_file, shm_read, shm_copied, tcp_plain, tcp_sealed };
const char* name_of(Path path) {
  switch (path) {
    case Path::inproc: return "inproc";
    case Path::shm_file: return "shm, in a memfd";
    case Path::shm_read: return "shm, read from the process";
    case Path::shm_copied: return "shm, copied when offered";
    case Path::tcp_plain: return "tcp, trusted";
    case Path::tcp_sealed: return "tcp, encrypted";
  }
  return "?";
}
constexpr bool by_shm(Path path) { return path >= Path::shm_file && path <= Path::shm_copied; }

double seconds(Duration span) { return std::chrono::duration<double>(span).count(); }

double middle_of(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

// Resident memory, never freed. A child must not use it: its pages would be copied at the next
// write.
std::span<std::byte> touched_memory(std::uint64_t size) {
  void* const at = ::mmap(nullptr, size, PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
  if (at == MAP_FAILED) refused("mmap");
  std::memset(at, 1, size);
  ::madvise(at, size, MADV_DONTFORK);
  return {static_cast<std::byte*>(at), size};
}

// One end: the transports of a process on a loop.
struct End {
  EventLoop& loop;
  ProcessId process = ProcessId::random();
  std::unique_ptr<TensorTransport> inproc, tcp;
  std::unique_ptr<ShmTransport> shm;

  End(EventLoop& on, const std::string& directory) : loop(on) {
    inproc = InprocTransport::create(loop, process).value();
    tcp = TcpTransport::create(loop, process).value();
    ShmOptions options;
    options.socket = directory + "/" + process.brief();
    options.arena.block_bytes = largest;
    shm = ShmTransport::create(loop, process, options).value();
  }
  TensorTransport& by(Path path) {
    if (path == Path::inproc) return *inproc;
    if (by_shm(path)) return *shm;
    return *tcp;
  }
};

// Makes offers by request: path, transfer, size, receiver, its endpoint. Without bytes and a path:
// release.
class HolderProcess {
 public:
  HolderProcess(EventLoop& loop, const std::string& directory, Fd socket)
      : end_(loop, directory),
        own_(touched_memory(largest)),
        file_(end_.shm->arena()->take(largest).value()) {
    std::memset(file_.bytes().data(), 1, largest);
    link_ = LocalLink::open(loop, std::move(socket),
                            {.on_frame = [this](const LocalFrame& frame) { on_frame(frame); },
                             .on_closed = [](const Failure&) { ::_exit(0); }})
                .value();
    BlobWriter hello;
    hello.id(end_.process).number(end_.shm->endpoint().size()).raw(end_.shm->endpoint());
    (void)link_->send(hello.raw(end_.tcp->endpoint()).bytes());
  }

 private:
  void on_frame(const LocalFrame& frame) {
    BlobReader from(frame.bytes);
    const auto path = static_cast<Path>(from.byte());
    Offer offer;
    offer.transfer = from.id<TransferId>();
    offer.to.peer = from.id<ProcessId>();
    offer.to.epoch = from.number();
    const std::uint64_t size = from.number();
    if (from.byte() == 1) {
      return end_.by(path).release(offer.transfer, [this] { (void)link_->send({}); });
    }
    const auto rest = from.raw(from.left());
    const auto bytes = path == Path::shm_file ? file_.bytes() : own_;
    SourceRegion region{.bytes = bytes.first(size)};
    if (path == Path::shm_file) region.file = file_.file();
    offer.regions.push_back(region);
    offer.peer = {offer.to.peer, rest, path == Path::tcp_plain};
    offer.copy = path == Path::shm_copied;
    const Time began = monotonic_now();
    end_.by(path).offer(std::move(offer), [this, began](const Result<Blob>& ticket) {
      BlobWriter to;
      to.number(static_cast<std::uint64_t>((monotonic_now() - began).count()));
      (void)link_->send(to.raw(ticket.value()).bytes());
    });
  }

  End end_;
  std::span<std::byte> own_;
  ArenaBytes file_;
  std::unique_ptr<LocalLink> link_;
};

class Receiver {
 public:
  Receiver(EventLoop& loop, const std::string& directory, Fd socket)
      : end_(loop, directory), socket_(std::move(socket)), target_(touched_memory(largest)) {
    const auto hello = receive_frame(socket_, monotonic_now() + 20s).value();
    BlobReader from(hello.bytes);
    holder_ = from.id<ProcessId>();
    const auto shm = from.raw(from.number());
    shm_.assign(shm.begin(), shm.end());
    const auto tcp = from.raw(from.left());
    tcp_.assign(tcp.begin(), tcp.end());
  }

  void open(Path path) {
    ++epoch_;
    const ChannelKey key = key_of(path);
    const Blob& blob = path == Path::inproc ? end_.inproc->endpoint() : by_shm(path) ? shm_ : tcp_;
    Result<void> opened;
    wait([&](const std::function<void()>& done) {
      end_.by(path).open(key, {key.peer, blob, path == Path::tcp_plain}, monotonic_now() + 5s,
                         [&opened, done](const Result<void>& result) {
                           opened = result;
                           done();
                         });
    });
    opened.value();
  }

  // Seconds of one pull, including the offer if the offer copies the bytes.
  double pull(Path path, std::uint64_t size) { return pull(path, target_.first(size)); }
  double pull(Path path, std::span<std::byte> target, bool untouched = false) {
    const std::uint64_t size = target.size();
    const auto id = TransferId::of(++transfers_);
    double spent = 0;
    const Blob ticket = offer(path, id, size, spent);
    if (path != Path::shm_copied) spent = 0;
    TransferEnd end;
    const Time began = monotonic_now();
    Pull pull;
    pull.transfer = id;
    pull.from = key_of(path);
    pull.ticket = ticket;
    pull.targets.push_back({target, {}, untouched});
    wait([&](const std::function<void()>& done) {
      end_.by(path).pull(std::move(pull), [&end, done](const TransferEnd& ended) {
        end = ended;
        done();
      });
    });
    spent += seconds(monotonic_now() - began);
    end.result.value();
    release(path, id);
    return spent;
  }

 private:
  ChannelKey key_of(Path path) const {
    return {path == Path::inproc ? end_.process : holder_, epoch_};
  }

  void wait(const std::function<void(const std::function<void()>&)>& start) {
    bool over = false;
    start([&over] { over = true; });
    while (!over) end_.loop.turn(1s);
  }

  Blob offer(Path path, TransferId id, std::uint64_t size, double& spent) {
    if (path == Path::inproc) {
      Offer offer;
      offer.transfer = id;
      offer.to = key_of(path);
      if (source_.empty()) source_ = touched_memory(largest);
      offer.regions.push_back({.bytes = source_.first(size)});
      Blob ticket;
      wait([&](const std::function<void()>& done) {
        end_.inproc->offer(std::move(offer), [&ticket, done](const Result<Blob>& made) {
          ticket = made.value();
          done();
        });
      });
      return ticket;
    }
    const auto answer = send_request(path, id, size, false);
    BlobReader from(answer.bytes);
    spent = static_cast<double>(from.number()) / 1e9;
    const auto ticket = from.raw(from.left());
    return {ticket.begin(), ticket.end()};
  }

  void release(Path path, TransferId id) {
    if (path != Path::inproc) return void(send_request(path, id, 0, true));
    wait([&](const std::function<void()>& done) { end_.inproc->release(id, done); });
  }

  LocalFrame send_request(Path path, TransferId id, std::uint64_t size, bool release) {
    BlobWriter to;
    to.byte(static_cast<std::uint8_t>(path)).id(id).id(end_.process).number(epoch_).number(size);
    to.byte(release ? 1 : 0).raw(end_.shm->endpoint());
    send_frame(socket_, to.bytes(), {}, monotonic_now() + 20s).value();
    return receive_frame(socket_, monotonic_now() + 20s).value();
  }

  End end_;
  Fd socket_;
  std::span<std::byte> target_, source_;
  ProcessId holder_;
  Blob shm_, tcp_;
  std::uint64_t epoch_ = 0;
  std::uint64_t transfers_ = 0;
};

double warm_memfd_copy(std::uint64_t size) {
  static const Fd file(::memfd_create("floor", MFD_CLOEXEC));
  static std::span<std::byte> from, to;
  if (from.empty()) {
    if (::ftruncate(file.get(), static_cast<off_t>(largest)) != 0) refused("ftruncate");
    void* const at = ::mmap(nullptr, largest, PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0);
    if (at == MAP_FAILED) refused("mmap");
    from = {static_cast<std::byte*>(at), largest};
    std::memset(at, 1, largest);
    to = touched_memory(largest);
  }
  std::memcpy(to.data(), from.data(),
              size);  // the work before has changed the contents of the caches
  const Time began = monotonic_now();
  std::memcpy(to.data(), from.data(), size);
  return static_cast<double>(size) / seconds(monotonic_now() - began);
}

double seal_by_one_core(std::uint64_t size) {
  static Sealer sealer(random_secret());
  static const auto plain = touched_memory(256 * kib);
  static std::vector<std::byte> sealed(256 * kib + seal_tag_size);
  const Time began = monotonic_now();
  for (std::uint64_t at = 0; at < size; at += plain.size()) sealer.seal({}, plain, sealed);
  return static_cast<double>(size) / seconds(monotonic_now() - began);
}

// Bytes per second over one socket with a thread at each end, in pieces of the same memory. With
// `far`, each piece uses different memory, as tensors do.
double socket_loop(std::uint64_t size, std::uint64_t piece, bool far) {
  const Fd listener = listen_at("127.0.0.1:0").value();
  const auto address = local_address_of(listener.get()).value();
  const auto memory = touched_memory(far ? size : piece);
  double rate = 0;
  {
    const EndlessChild child([&] {
      const int out = ::socket(AF_INET, SOCK_STREAM, 0);
      if (::connect(out, address.get(), address.size) != 0) ::_exit(1);
      const auto own = touched_memory(far ? size : piece);
      for (std::uint64_t at = 0;; at = (at + piece) % own.size()) {
        if (::send(out, own.data() + at, piece, MSG_NOSIGNAL) <= 0) ::_exit(0);
      }
    });
    const int in = [&] {
      for (;;) {
        auto taken = accept_from(listener);
        if (taken && *taken) return taken->release();
        ::usleep(1'000);
      }
    }();
    const int flags = ::fcntl(in, F_GETFL);
    ::fcntl(in, F_SETFL, flags & ~O_NONBLOCK);
    std::uint64_t got = 0;
    Time began;
    while (got < size + 8 * mib) {
      if (got >= 8 * mib && began == Time()) began = monotonic_now();
      const std::uint64_t at = far ? got % memory.size() : 0;
      const std::uint64_t space = std::min<std::uint64_t>(piece, memory.size() - at);
      const ssize_t count = ::recv(in, memory.data() + at, space, 0);
      if (count <= 0) break;
      got += static_cast<std::uint64_t>(count);
    }
    rate = static_cast<double>(size) / seconds(monotonic_now() - began);
    ::close(in);
  }
  ::munmap(memory.data(), memory.size());
  return rate;
}

constexpr int bar_rounds = 11;

double rate_of(Receiver& receiver, Path path, std::uint64_t size, bool first_time) {
  if (first_time) receiver.open(path);
  return static_cast<double>(size) / receiver.pull(path, size);
}

// The floor of each bar is measured next to it in every round.
void bars(Receiver& receiver) {
  constexpr std::uint64_t size = 64 * mib;
  std::vector<double> copy, first, again, plain, sealed, socket, far_socket, seal;
  for (int i = 0; i < bar_rounds; ++i) {
    copy.push_back(warm_memfd_copy(size));
    first.push_back(rate_of(receiver, Path::shm_file, size, true));
    again.push_back(rate_of(receiver, Path::shm_file, size, false));
    double best = 0, best_far = 0;
    for (const std::uint64_t piece : {64 * kib, 256 * kib, 1 * mib}) {
      best = std::max(best, socket_loop(size, piece, false));
      best_far = std::max(best_far, socket_loop(size, piece, true));
    }
    socket.push_back(best);
    far_socket.push_back(best_far);
    seal.push_back(seal_by_one_core(size));
    receiver.open(Path::tcp_plain);
    receiver.pull(Path::tcp_plain, mib);
    plain.push_back(rate_of(receiver, Path::tcp_plain, size, false));
    receiver.open(Path::tcp_sealed);
    receiver.pull(Path::tcp_sealed, mib);
    sealed.push_back(rate_of(receiver, Path::tcp_sealed, size, false));
  }
  const auto line = [](const char* what, const std::vector<double>& rates,
                       const std::vector<double>& floors, double bar) {
    std::vector<double> shares;
    for (std::size_t i = 0; i < rates.size(); ++i) shares.push_back(rates[i] / floors[i]);
    const auto [least, most] = std::minmax_element(shares.begin(), shares.end());
    fmt::print(
        "{:34} {:6.2f} GB/s  {:4.2f} of its floor ({:4.2f} to {:4.2f}), the bar is {:3.1f}\n", what,
        middle_of(rates) / 1e9, middle_of(shares), *least, *most, bar);
  };
  fmt::print("floor: copy from a warm memfd      {:6.2f} GB/s\n", middle_of(copy) / 1e9);
  fmt::print("floor: best socket loop            {:6.2f} GB/s\n", middle_of(socket) / 1e9);
  fmt::print("the same through 64 MiB of memory  {:6.2f} GB/s\n", middle_of(far_socket) / 1e9);
  fmt::print("floor: AES-256-GCM by one core     {:6.2f} GB/s\n", middle_of(seal) / 1e9);
  std::vector<double> lower;
  for (std::size_t i = 0; i < seal.size(); ++i) lower.push_back(std::min(socket[i], seal[i]));
  line("shm, 64 MiB, the first time", first, copy, 0.7);
  line("shm, 64 MiB, again", again, copy, 0.7);
  line("tcp, 64 MiB, trusted", plain, socket, 0.8);
  line("tcp, 64 MiB, encrypted", sealed, lower, 0.6);
}

// Bytes per second of one socket into memory that no program has touched, with a thread at each
// end.
double socket_into_fresh(std::uint64_t size, std::span<const std::byte> from, bool huge) {
  const Fd listener = listen_at("127.0.0.1:0").value();
  const auto address = local_address_of(listener.get()).value();
  const Time began = monotonic_now();
  std::thread sender([&] {
    const Fd out(::socket(AF_INET, SOCK_STREAM, 0));
    if (::connect(out.get(), address.get(), address.size) != 0) refused("connect");
    for (std::uint64_t at = 0; at < size;) {
      const ssize_t sent = ::send(out.get(), from.data() + at, std::min(mib, size - at), 0);
      if (sent <= 0) refused("send");
      at += static_cast<std::uint64_t>(sent);
    }
  });
  void* const at =
      ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (at == MAP_FAILED) refused("mmap");
  if (huge) ::madvise(at, size, MADV_HUGEPAGE);
  pollfd ready{listener.get(), POLLIN, 0};
  ::poll(&ready, 1, -1);
  const Fd in = accept_from(listener).value();
  ::fcntl(in.get(), F_SETFL, ::fcntl(in.get(), F_GETFL) & ~O_NONBLOCK);
  for (std::uint64_t got = 0; got < size;) {
    const ssize_t count =
        ::recv(in.get(), static_cast<std::byte*>(at) + got, std::min(mib, size - got), 0);
    if (count <= 0) refused("recv");
    got += static_cast<std::uint64_t>(count);
  }
  const double spent = seconds(monotonic_now() - began);
  sender.join();
  ::munmap(at, size);
  return static_cast<double>(size) / spent;
}

// First pulls of 256 MiB: a fresh connection and a fresh buffer. The floor is measured in turns.
void first_pulls(Receiver& receiver) {
  const auto source = touched_memory(largest);
  std::vector<double> floor, huge_floor, warm_floor, first, connected, before, again;
  for (int i = 0; i < bar_rounds; ++i) {
    floor.push_back(socket_into_fresh(largest, source, false));
    huge_floor.push_back(socket_into_fresh(largest, source, true));
    warm_floor.push_back(socket_loop(largest, mib, true));
    for (std::vector<double>* const rates : {&first, &connected, &before}) {
      const bool unpopulated = rates == &before;
      ReceivePool pool({.kept_bytes = 0});
      receiver.open(Path::tcp_plain);
      if (rates == &connected) receiver.pull(Path::tcp_plain, 4 * mib);
      const Time began = monotonic_now();
      const auto fresh = pool.take(largest).value();
      receiver.pull(Path::tcp_plain, fresh.bytes(), !unpopulated);
      rates->push_back(static_cast<double>(largest) / seconds(monotonic_now() - began));
      if (rates == &first) {
        again.push_back(static_cast<double>(largest) /
                        receiver.pull(Path::tcp_plain, fresh.bytes()));
      }
    }
  }
  const auto line = [](const char* what, std::vector<double> rates) {
    const auto [least, most] = std::minmax_element(rates.begin(), rates.end());
    fmt::print("{:44} {:5.2f} GB/s ({:4.2f} to {:4.2f})\n", what, middle_of(rates) / 1e9,
               *least / 1e9, *most / 1e9);
  };
  line("floor: one socket, 256 MiB, fresh memory", floor);
  line("the same with huge pages", huge_floor);
  line("the same into touched memory", warm_floor);
  line("tcp, trusted, 256 MiB, first pull", first);
  line("the same on an open connection", connected);
  line("the same without populating its buffer", before);
  line("tcp, trusted, 256 MiB, again", again);
}

void table(Receiver& receiver) {
  const std::vector<std::uint64_t> sizes{8, kib, 64 * kib, mib, 16 * mib, 64 * mib, largest};
  fmt::print("{:28}", "");
  for (const std::uint64_t size : sizes) {
    fmt::print("{:>14}", size >= mib   ? fmt::format("{} MiB", size / mib)
                         : size >= kib ? fmt::format("{} KiB", size / kib)
                                       : fmt::format("{} B", size));
  }
  fmt::print("\n");
  for (const Path path : {Path::inproc, Path::shm_file, Path::shm_read, Path::shm_copied,
                          Path::tcp_plain, Path::tcp_sealed}) {
    receiver.open(path);
    fmt::print("{:28}", name_of(path));
    for (const std::uint64_t size : sizes) {
      const int turns = size <= 64 * kib ? 200 : size <= mib ? 50 : size <= 64 * mib ? 7 : 3;
      std::vector<double> each;
      receiver.pull(path, size);
      for (int i = 0; i < turns; ++i) each.push_back(receiver.pull(path, size));
      const double spent = middle_of(each);
      fmt::print("{:>14}", size <= 64 * kib ? fmt::format("{:.1f} us", spent * 1e6)
                                            : fmt::format("{:.2f} GB/s",
                                                          static_cast<double>(size) / spent / 1e9));
    }
    fmt::print("\n");
  }
  const auto spin = spinning_round_trip();
  const auto sleep = socket_round_trip();
  fmt::print("floors: two spinning processes {:.2f} us, two that sleep at sockets {:.1f} us\n",
             spin.value, sleep.value);
}

}  // namespace

int run(std::string_view part) {
  std::string directory =
      (std::filesystem::temp_directory_path() / "mobula-direct-XXXXXX").string();
  if (::mkdtemp(directory.data()) == nullptr) refused("mkdtemp");
  {
    auto pair = make_local_pair().value();
    const EndlessChild holder([&] {
      pair.second.reset();
      const auto loop = EventLoop::create().value().release();
      // Lives until the process exits, like the loop.
      new HolderProcess(*loop, directory, std::move(pair.first));
      loop->run();
    });
    pair.first.reset();
    const auto loop = EventLoop::create().value();
    Receiver receiver(*loop, directory, std::move(pair.second));
    if (part.empty()) table(receiver);
    if (part != "--bars") first_pulls(receiver);
    if (part != "--first") bars(receiver);
  }
  std::filesystem::remove_all(directory);
  return 0;
}

}  // namespace mobula::bench

int main(int count, char** words) { return mobula::bench::run(count > 1 ? words[1] : ""); }
