#include "head/main.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <optional>

#include "base/fd.h"
#include "head/head_keys.h"
#include "head/head_service.h"
#include "transport/address.h"
#include "transport/event_loop.h"
#include "transport/port_holder.h"
#include "transport/zap.h"

namespace mobula::internal::head {
namespace {

constexpr int ended_well = 0;
constexpr int failed = 1;
constexpr int wrong_use = 2;

// Held for the life of the head: two heads of one folder would each lose what the other writes.
Result<Fd> lock_folder(const std::string& folder) {
  const std::string path = folder + "/head/lock";
  Fd lock(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  if (!lock) return errno_failure("open the lock " + path, errno);
  if (::flock(lock.get(), LOCK_EX | LOCK_NB) == 0) return lock;
  if (errno != EWOULDBLOCK) return errno_failure("lock " + path, errno);
  const auto running = load_head_file(folder + "/head/head.json");
  const std::string who = running ? fmt::format("pid {} at {}", running->pid, running->address)
                                  : std::string("another process");
  return failure(
      ErrorCode::already_exists,
      fmt::format("a head of this cluster runs already from {} ({}); use it, end it with "
                  "'mobula stop', or give this one another --name or --state-dir",
                  folder, who));
}

// The port of the head before this one, so that agents find it again.
std::uint16_t recorded_port(const std::string& folder) {
  const auto text = read_file(folder + "/head/port");
  const long port = text ? std::strtol(text->c_str(), nullptr, 10) : 0;
  return port > 0 && port <= 65'535 ? static_cast<std::uint16_t>(port) : 0;
}

// Where packets to other machines leave this one; sends nothing (192.0.2.0/24 is for documents).
std::string outward_host() {
  const Fd probe(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  sockaddr_in there{};
  there.sin_family = AF_INET;
  there.sin_port = htons(9);
  ::inet_pton(AF_INET, "192.0.2.1", &there.sin_addr);
  if (probe &&
      ::connect(probe.get(), reinterpret_cast<const sockaddr*>(&there), sizeof there) == 0) {
    if (const auto own = local_address_of(probe.get())) {
      return own->text().substr(0, own->text().rfind(':'));
    }
  }
  char name[256] = {};
  return ::gethostname(name, sizeof name - 1) == 0 ? name : "127.0.0.1";
}

bool is_any(const std::string& host) { return host == "0.0.0.0" || host == "::" || host == "*"; }

std::string with_port(const std::string& host, std::uint16_t port) {
  const bool v6 = host.find(':') != std::string::npos && host.front() != '[';
  return v6 ? fmt::format("[{}]:{}", host, port) : fmt::format("{}:{}", host, port);
}

// One run of a head. Members end in the reverse of their order: the loop last.
class HeadRun {
 public:
  explicit HeadRun(const HeadMainOptions& options) : options_(options) {}

  Result<void> prepare() {
    for (const auto& folder : {options_.folder, options_.folder + "/head"}) {
      if (auto made = make_private_folder(folder); !made) return made;
    }
    auto lock = lock_folder(options_.folder);
    if (!lock) return lock.error();
    lock_ = std::move(lock).value();
    auto loop = EventLoop::create();
    if (!loop) return loop.error();
    loop_ = std::move(loop).value();
    return watch_for_the_end();
  }

  // Listens, tests itself, and begins. Nothing is answered before the test: the loop does not run.
  Result<void> open() {
    HeadServiceOptions service;
    service.journal_path = options_.folder + "/head/journal.sqlite";
    service.packages_folder = options_.folder + "/head/job-files";
    service.core.settings.cluster_name = options_.cluster;
    service.core.version = options_.version;
    service.core.preempt_after = options_.preempt_after;
    service.core.settings.trusted_fabric = options_.trusted_fabric;
    service.record = options_.record;
    if (auto ready = take_keys(service); !ready) return ready;
    HeadServiceCallbacks callbacks;
    callbacks.on_serving = [this] { serving(); };
    callbacks.on_not_durable = [this](const std::string& why) {
      fault_ = failure(ErrorCode::unavailable, why);
      loop_->stop();
    };
    auto made = HeadService::create(*loop_, std::move(service), std::move(callbacks));
    if (!made) return made.error();
    service_ = std::move(made).value();
    const auto bound = bind();
    if (!bound) return bound.error();
    if (auto told = announce(*bound); !told) return told;
    if (options_.on_listening) options_.on_listening(file_);
    if (auto tested = test_doors(*bound); !tested) return tested;
    return service_->start();
  }

  // Until the end; what made it fail, if something did.
  Result<void> run() {
    loop_->run();
    service_.reset();
    ::unlink(head_file_path().c_str());
    if (fault_) return *fault_;
    return {};
  }

 private:
  std::string head_file_path() const { return options_.folder + "/head/head.json"; }

  Result<void> watch_for_the_end() {
    sigset_t signals;
    ::sigemptyset(&signals);
    ::sigaddset(&signals, SIGTERM);
    ::sigaddset(&signals, SIGINT);
    ::pthread_sigmask(SIG_BLOCK, &signals, nullptr);
    ::signal(SIGHUP, SIG_IGN);  // of a terminal that closes
    ::signal(SIGPIPE, SIG_IGN);
    signals_ = Fd(::signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK));
    if (!signals_) return errno_failure("make the signal descriptor of the head", errno);
    auto watch = loop_->watch(signals_.get(), Interest::read, [this](Readiness) { loop_->stop(); });
    if (!watch) return watch.error();
    signal_watch_ = std::move(watch).value();
    if (options_.life_fd < 0) return {};
    auto life = loop_->watch(options_.life_fd, Interest::read, [this](Readiness) {
      char byte = 0;
      if (::read(options_.life_fd, &byte, 1) <= 0) loop_->stop();
    });
    if (!life) return life.error();
    life_watch_ = std::move(life).value();
    return {};
  }

  Result<void> take_keys(HeadServiceOptions& service) {
    if (options_.insecure) {
      service.signing = SigningKeys::generate();
      return {};
    }
    auto keys = HeadKeys::load_or_make(options_.folder, options_.cluster);
    if (!keys) return keys.error();
    keys_ = std::move(keys).value();
    service.keys = keys_->curve;
    service.signing = keys_->signing;
    service.allow = &allow_;
    return keys_->admit(allow_);
  }

  Result<std::string> bind() {
    const std::uint16_t before = recorded_port(options_.folder);
    const std::uint16_t port = options_.port != 0 ? options_.port : before;
    const std::string host = options_.bind_host == "*" ? "0.0.0.0" : options_.bind_host;
    auto bound = service_->bind(with_port(host, port));
    if (bound || bound.error().code != ErrorCode::already_exists) return bound;
    const std::string listener = listener_at(port);
    const std::string who = listener.empty() ? "another process" : listener;
    if (options_.port != 0) {
      return failure(ErrorCode::already_exists,
                     fmt::format("port {} of {} is in use by {}; end that process, or "
                                 "choose another port with --port, or none for any free one",
                                 port, host, who));
    }
    return failure(ErrorCode::already_exists,
                   fmt::format("port {} of {}, which this cluster's head had before, is in use by "
                               "{}; end that process so that agents find the head "
                               "again, or move the cluster with --port",
                               port, host, who));
  }

  // A bus that admits strangers must not run, so it is tried before anything is answered.
  Result<void> test_doors(const std::string& bound) {
    if (!keys_) return {};
    const auto address = Address::parse(bound);
    if (!address) return address.error();
    const std::string host = address->host() == "0.0.0.0" ? "127.0.0.1"
                             : address->host() == "::"    ? "::1"
                                                          : address->host();
    return self_test(allow_, with_port(host, address->port()), keys_->curve.public_key);
  }

  Result<void> announce(const std::string& bound) {
    const auto address = Address::parse(bound);
    if (!address) return address.error();
    file_.cluster = options_.cluster;
    const std::string host = !options_.advertise_host.empty() ? options_.advertise_host
                             : is_any(options_.bind_host)     ? outward_host()
                                                              : options_.bind_host;
    file_.address = with_port(host, address->port());
    file_.pid = ::getpid();
    service_->set_address(file_.address);
    return write_file(options_.folder + "/head/port", std::to_string(address->port()) + "\n", 0600);
  }

  void serving() {
    if (auto saved = save(file_, head_file_path()); !saved) {
      fault_ = saved.error();
      return loop_->stop();
    }
    log_info("the head of '{}' serves at {} in epoch {}", file_.cluster, file_.address,
             service_->core().epoch());
    if (options_.on_ready) options_.on_ready(file_);
  }

  const HeadMainOptions& options_;
  Fd lock_;
  Fd signals_;
  AllowTable allow_;
  std::optional<HeadKeys> keys_;
  std::unique_ptr<EventLoop> loop_;
  Watch signal_watch_;
  Watch life_watch_;
  HeadFile file_;
  std::optional<Failure> fault_;
  std::unique_ptr<HeadService> service_;
};

int complain(const Failure& why, int code) {
  log_error("{}", why.text);
  std::fprintf(stderr, "mobula: %s\n", why.text.c_str());
  return code;
}

// Without keys anybody who reaches the port would own the cluster.
Result<void> check_options(const HeadMainOptions& options) {
  if (!options.insecure) return {};
  const auto address = Address::parse(with_port(options.bind_host, 0));
  const auto numeric = address ? address->numeric() : std::nullopt;
  const bool loopback = numeric ? numeric->loopback() : options.bind_host == "localhost";
  if (loopback) return {};
  return failure(ErrorCode::invalid_argument,
                 fmt::format("--insecure with --bind {} is refused: without keys anybody who "
                             "reaches that address could run programs here; leave out --insecure, "
                             "or bind 127.0.0.1",
                             options.bind_host));
}

}  // namespace

int run_head(const HeadMainOptions& options) {
  if (auto fine = check_options(options); !fine) return complain(fine.error(), wrong_use);
  HeadRun run(options);
  if (auto prepared = run.prepare(); !prepared) return complain(prepared.error(), failed);
  LogOptions log{.role = "head", .level = options.log_level, .file = options.log_file};
  if (auto opened = open_log(log); !opened) return complain(opened.error(), failed);
  if (auto open = run.open(); !open) return complain(open.error(), failed);
  const auto ended = run.run();
  return ended ? ended_well : complain(ended.error(), failed);
}

}  // namespace mobula::internal::head
