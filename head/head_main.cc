#include "head/head_main.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <malloc.h>
#include <sys/file.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <optional>

#include "base/fd.h"
#include "head/advertised_address.h"
#include "head/head_keys.h"
#include "head/head_service.h"
#include "head/http/http_service.h"
#include "protocol/process_identity.h"
#include "protocol/tickets/token.h"
#include "transport/bus/connection_guard.h"
#include "transport/bus/zap.h"
#include "transport/loop/event_loop.h"
#include "transport/net/address.h"
#include "transport/net/port_holder.h"
#include "transport/net/tcp.h"

namespace mobula::internal::head {
namespace {

constexpr int ended_well = 0;
constexpr int failed = 1;
constexpr int wrong_use = 2;
constexpr std::size_t few_descriptors = 4096;

// Held for the life of the head. Two heads of one directory would overwrite each other's journal.
Result<Fd> lock_dir(const std::string& directory) {
  const std::string path = directory + "/head/lock";
  Fd lock(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  if (!lock) return errno_failure("open the lock " + path, errno);
  if (::flock(lock.get(), LOCK_EX | LOCK_NB) == 0) return lock;
  if (errno != EWOULDBLOCK) return errno_failure("lock " + path, errno);
  const auto running = load_head_file(directory + "/head/head.json");
  const std::string who = running ? fmt::format("pid {} at {}", running->pid, running->address)
                                  : std::string("another process");
  return failure(
      ErrorCode::already_exists,
      fmt::format("a head of this cluster runs already from {} ({}); use it{}, end it with "
                  "'mobula stop', or give this one another --name or --state-dir",
                  directory, who,
                  running ? fmt::format(" (an agent comes to it by 'mobula start --address {}')",
                                        running->address)
                          : ""));
}

// Returns the port of the previous head, so that agents find this head.
std::uint16_t recorded_port(const std::string& directory) {
  const auto text = read_file(directory + "/head/port");
  const long port = text ? std::strtol(text->c_str(), nullptr, 10) : 0;
  return port > 0 && port <= 65'535 ? static_cast<std::uint16_t>(port) : 0;
}

std::string holder_of(std::uint16_t port) {
  const std::string listener = listener_at(port);
  return listener.empty() ? "another process" : listener;
}

Failure port_taken(const std::string& host, std::uint16_t port) {
  return failure(ErrorCode::already_exists,
                 fmt::format("port {} of {} is in use by {}; end that process, or "
                             "choose another port with --port, or none for any free one",
                             port, host, holder_of(port)));
}

std::optional<TlsServer::Files> tls_files(const HeadMainOptions& options) {
  if (options.http_cert.empty()) return std::nullopt;
  return TlsServer::Files{options.http_cert, options.http_key};
}

// One run of a head. Members are destroyed in reverse order, so the loop ends after its users.
class HeadRun {
 public:
  explicit HeadRun(const HeadMainOptions& options) : options_(options) {}

  Result<void> prepare() {
    raise_descriptor_limit();
    (void)::mallopt(M_MMAP_THRESHOLD, 1 << 20);  // returns freed message buffers to the system
    for (const auto& directory : {options_.directory, options_.directory + "/head"}) {
      if (auto made = make_private_dir(directory); !made) return made;
    }
    auto lock = lock_dir(options_.directory);
    if (!lock) return lock.error();
    lock_ = std::move(lock).value();
    auto loop = EventLoop::create();
    if (!loop) return loop.error();
    loop_ = std::move(loop).value();
    return watch_for_the_end();
  }

  // Listens, tests itself, and starts. No request is answered before the test, because the loop
  // does not run.
  Result<void> open() {
    HeadServiceOptions service;
    service.journal_path = options_.directory + "/head/journal.sqlite";
    service.use_ring_path = options_.directory + "/head/use.sqlite";
    service.packages_dir = options_.directory + "/head/job-files";
    service.log_file = options_.log_file;
    service.core.settings.cluster_name = options_.cluster;
    service.core.version = options_.version;
    service.core.preempt_delay = options_.preempt_delay;
    if (options_.driver_absence_s > 0)
      service.core.driver_absence = std::chrono::seconds(options_.driver_absence_s);
    service.core.settings.trusted_fabric = options_.trusted_fabric;
    service.record = options_.record;
    report_descriptors();
    if (auto ready = take_keys(service); !ready) return ready;
    if (auto listens = open_pages(service); !listens) return listens;
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
    if (auto done = announce(*bound); !done) return done;
    if (options_.on_listening) options_.on_listening(file_);
    if (auto tested = test_doors(*bound); !tested) return tested;
    if (auto done = write_http_token(); !done) return done;
    if (auto started = service_->start(); !started) return started;
    if (auto found = check_expected(); !found) return found;
    if (auto written = write_file(addresses_path(), to_text(addresses_), 0600); !written)
      return written;
    const auto address = Address::parse(*bound);
    return write_file(options_.directory + "/head/port",
                      fmt::format("{}\n", address ? address->port() : 0), 0600);
  }

  // Runs until the end. Returns the error that ended the head, if any.
  Result<void> run() {
    loop_->run();
    http_.reset();
    service_.reset();
    ::unlink(head_file_path().c_str());
    if (fault_) return *fault_;
    return {};
  }

 private:
  std::string head_file_path() const { return options_.directory + "/head/head.json"; }

  Result<void> watch_for_the_end() {
    sigset_t signals;
    ::sigemptyset(&signals);
    ::sigaddset(&signals, SIGTERM);
    ::sigaddset(&signals, SIGINT);
    ::pthread_sigmask(SIG_BLOCK, &signals, nullptr);
    ::signal(SIGHUP, SIG_IGN);  // sent when the terminal closes
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
      return make_reader(service.signing);
    }
    auto keys = HeadKeys::load_or_make(options_.directory, options_.cluster);
    if (!keys) return keys.error();
    reader_ = keys->observer_key;
    keys_ = std::move(keys).value();
    service.keys = keys_->curve;
    service.own_keys = {keys_->join.public_key, keys_->operator_key.public_key,
                        keys_->observer_key.public_key};
    service.signing = keys_->signing;
    service.allow = &allow_;
    return keys_->admit(allow_);
  }

  // Pages require a token even without keys, because a browser of any user of this machine can
  // connect.
  Result<void> make_reader(const SigningKeys& signing) {
    const auto pair = CurveKeys::generate();
    if (!pair) return options_.http.empty() ? Result<void>() : pair.error();
    reader_ = {.cluster = options_.cluster,
               .role = std::string(to_string(Role::observer)),
               .head_curve_key = pair->public_key,
               .head_signing_key = hex_of_key(signing.public_key),
               .public_key = pair->public_key,
               .secret_key = pair->secret_key};
    return allow_.allow(pair->public_key, user_id_of(Role::observer, options_.cluster));
  }

  std::string http_token_path() const { return options_.directory + "/head/http.token"; }

  // Listens before the core is created, because the core needs the address of the pages.
  Result<void> open_pages(HeadServiceOptions& service) {
    if (options_.http.empty()) {
      ::unlink(http_token_path().c_str());
      return {};
    }
    HttpOptions http;
    http.bounds.max_connections = std::min(http.bounds.max_connections, descriptor_limit() / 8);
    http.address = options_.http;
    http.keys = &allow_;
    http.tls = tls_files(options_);
    http.names = {options_.bind_host, options_.advertise_host};
    if (const auto given = Address::parse(options_.http)) http.names.push_back(given->host());
    HttpCallbacks callbacks;
    callbacks.serving = [this] { return service_ && service_->serving(); };
    callbacks.state = [this](const std::string& user, const std::string& key, ToolRequest request,
                             const HttpCallbacks::ReplyCallback& callback) {
      service_->query(user, key, std::move(request), callback);
    };
    auto started = HttpService::start(*loop_, std::move(http), std::move(callbacks));
    if (!started) return started.error();
    http_ = std::move(started).value();
    const auto address = Address::parse(http_->address());
    if (!address) return address.error();
    file_.http_url = fmt::format("{}://{}", options_.http_cert.empty() ? "http" : "https",
                                 with_port(reachable_host(address->host()), address->port()));
    file_.http_token_file = http_token_path();
    service.core.http_url = file_.http_url;
    service.core.http_token_file = file_.http_token_file;
    return {};
  }

  Result<void> write_http_token() const {
    if (!http_) return {};
    const Token token{.cluster = options_.cluster,
                      .address = file_.address,
                      .head_curve_key = reader_.head_curve_key,
                      .head_signing_key = reader_.head_signing_key,
                      .role = reader_.role,
                      .public_key = reader_.public_key,
                      .secret_key = reader_.secret_key};
    return write_file(http_token_path(), to_text(token) + "\n", 0600);
  }

  Result<std::string> bind() {
    const std::uint16_t before = recorded_port(options_.directory);
    const std::uint16_t port = options_.port != 0 ? options_.port : before;
    const std::string host = options_.bind_host == "*" ? "0.0.0.0" : options_.bind_host;
    auto bound = service_->bind(with_port(host, port));
    if (bound || bound.error().code != ErrorCode::already_exists) return bound;
    const std::string who = holder_of(port);
    if (options_.port != 0) return port_taken(host, port);
    return failure(ErrorCode::already_exists,
                   fmt::format("port {} of {}, which this cluster's head had before, is in use by "
                               "{}; end that process so that agents find the head "
                               "again, or move the cluster with --port and --as-given",
                               port, host, who));
  }

  // Tests that the bus rejects unknown keys, before any request is answered.
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
    const std::string& advertised = options_.advertise_host;
    file_.address = with_port(advertised.empty() ? reachable_host(options_.bind_host) : advertised,
                              address->port());
    addresses_ = {with_port(address->host(), address->port()), file_.address};
    if (!advertised.empty()) check_advertised();
    const auto self = ProcessIdentity::of_this_process();
    file_.pid = self.pid;
    file_.start_time = self.start_time;
    file_.boot_id = self.boot_id;
    service_->set_address(file_.address);
    return {};
  }

  // Returns the host that other machines use for a listener at `host`.
  static std::string reachable_host(const std::string& host) {
    return is_any_host(host)
               ? advertised_host(HostFacts::of_machine(), host.find(':') != std::string::npos)
               : host;
  }

  // Only warns: a name may resolve later, for example the name of a service that waits for this
  // head.
  void check_advertised() {
    const auto address = Address::parse(file_.address);
    const auto resolved = address ? address->resolve() : Result<SocketAddress>(address.error());
    if (!resolved) {
      warn(
          fmt::format("--advertise {}: {}; until that changes, no process that is given this "
                      "address finds the head",
                      options_.advertise_host, resolved.error().text));
    }
  }

  // Rejects a new address if nodes in the journal search for the head at the old one. Their work
  // would end without a request to end it.
  Result<void> check_expected() {
    const auto text = read_file(addresses_path());
    const auto before = text ? addresses_of(*text) : std::nullopt;
    if (!before || reached_at(*before, addresses_.bound)) return {};
    const std::int64_t lost = nodes_with_other_head();
    if (lost == 0) return {};
    const std::string what =
        fmt::format("{} of this cluster look{} for the head at {}, and this one listens at {}",
                    lost == 1 ? "1 node" : fmt::format("{} nodes", lost), lost == 1 ? "s" : "",
                    before->advertised, addresses_.bound);
    if (!options_.moves) {
      return failure(ErrorCode::invalid_argument,
                     fmt::format("{}; leave out --bind and --port, so that they find it as before, "
                                 "or add --as-given: they count as dead then, with all their work, "
                                 "until they are started again with --address {}",
                                 what, file_.address));
    }
    warn(
        fmt::format("{}: they count as dead in {} s, with all their work, unless a head listens "
                    "there again; start them again with --address {}",
                    what, HeadOptions().recovery / 1s, file_.address));
    return {};
  }

  // The agent on the machine of the head does not count if it has ended: it is restarted with the
  // address of the head.
  std::int64_t nodes_with_other_head() const {
    const auto beside = load_agent_file(options_.directory + "/agent/agent.json");
    std::int64_t count = 0;
    for (const auto& node : service_->core().view().nodes) {
      const bool restarts = beside && beside->node == node.node && !runs(*beside);
      count += node.state == NodeState::expected && node.role == Role::agent && !restarts ? 1 : 0;
    }
    return count;
  }

  std::string addresses_path() const { return options_.directory + "/head/place"; }

  void warn(const std::string& text) {
    log_warn("{}", text);
    warnings_.push_back(text);
  }

  // libzmq polls the listener without a pause if accept() finds no descriptor; the bus therefore
  // keeps the number of its connections below the limit.
  void report_descriptors() {
    const std::size_t descriptors = descriptor_limit();
    const std::size_t connections = within_descriptors({}, descriptors).max_connections;
    log_info("head: raised the descriptor limit descriptors={} connections={}", descriptors,
             connections);
    if (descriptors >= few_descriptors) return;
    warn(
        fmt::format("start head: the hard limit allows {} descriptors, and therefore {} "
                    "connections; raise it (ulimit -Hn, "
                    "or LimitNOFILE of its unit)",
                    descriptors, connections));
  }

  void serving() {
    if (auto saved = save(file_, head_file_path()); !saved) {
      fault_ = saved.error();
      return loop_->stop();
    }
    log_info("the head of '{}' serves at {} in epoch {}", file_.cluster, file_.address,
             service_->core().epoch());
    if (options_.on_ready) options_.on_ready(file_, warnings_);
  }

  const HeadMainOptions& options_;
  Fd lock_;
  Fd signals_;
  AllowTable allow_;
  std::optional<HeadKeys> keys_;
  KeyFile reader_;  // key with which the user of this machine reads the pages
  std::unique_ptr<EventLoop> loop_;
  Watch signal_watch_;
  Watch life_watch_;
  HeadFile file_;
  HeadAddresses addresses_;
  std::vector<std::string> warnings_;  // for the caller of run_head()
  std::optional<Failure> fault_;
  std::unique_ptr<HeadService> service_;
  std::unique_ptr<HttpService> http_;
};

int complain(const Failure& why, int code) {
  log_error("{}", why.text);
  std::fprintf(stderr, "mobula: %s\n", why.text.c_str());
  return code;
}

bool is_loopback(const std::string& host) {
  const auto address = Address::parse(with_port(host, 0));
  const auto numeric = address ? address->numeric() : std::nullopt;
  return numeric ? numeric->loopback() : host == "localhost";
}

// Without keys, any process that reaches the port would control the cluster.
Result<void> check_options(const HeadMainOptions& options) {
  if (is_any_host(options.advertise_host)) {
    return failure(
        ErrorCode::invalid_argument,
        fmt::format(
            "--advertise {} is not an address that others can reach; name one, or omit the flag",
            options.advertise_host));
  }
  if (options.http.empty() && !options.http_cert.empty())
    return failure(ErrorCode::invalid_argument, "--http-cert needs --http");
  if (!options.http.empty()) {
    const auto http = Address::parse(options.http);
    if (!http) return http.error();
    if (options.insecure && !is_loopback(http->host())) {
      return failure(
          ErrorCode::invalid_argument,
          fmt::format("--insecure with --http {} is refused: a head without keys serves this "
                      "machine alone; leave out --insecure, or give 127.0.0.1:PORT",
                      options.http));
    }
    const auto tls = tls_files(options);
    if (!tls && !options.http_unencrypted && !is_loopback(http->host())) {
      return failure(
          ErrorCode::invalid_argument,
          fmt::format("--http {} is refused: these pages are plain HTTP, and tokens could be read "
                      "on their way; give --http-cert and --http-key, or 127.0.0.1:PORT, or "
                      "--http-unencrypted if no other host can listen on that network",
                      options.http));
    }
    if (tls) {
      if (const auto opened = TlsServer::open(*tls); !opened) return opened.error();
    }
  }
  if (!options.insecure || is_loopback(options.bind_host)) return {};
  return failure(
      ErrorCode::invalid_argument,
      fmt::format("--insecure with --bind {} is refused: without keys any process that reaches "
                  "that address could run programs here; leave out --insecure, or bind 127.0.0.1",
                  options.bind_host));
}

}  // namespace

Result<void> could_listen(const HeadMainOptions& options) {
  if (auto fine = check_options(options); !fine) return fine;
  const Fd lock(::open((options.directory + "/head/lock").c_str(), O_RDWR | O_CLOEXEC));
  const bool own_runs = lock && ::flock(lock.get(), LOCK_EX | LOCK_NB) != 0;
  const std::string host = options.bind_host == "*" ? "0.0.0.0" : options.bind_host;
  if (options.port != 0 && !(own_runs && recorded_port(options.directory) == options.port)) {
    const auto tried = listen_at(with_port(host, options.port));
    if (!tried)
      return tried.error().code == ErrorCode::already_exists ? port_taken(host, options.port)
                                                             : tried.error();
  }
  if (options.http.empty() || own_runs) return {};
  const auto tried = listen_at(options.http);
  if (tried) return {};
  const auto address = Address::parse(options.http);
  return tried.error().code == ErrorCode::already_exists
             ? failure(ErrorCode::already_exists,
                       fmt::format("port {} of --http is in use by {}; choose another one",
                                   options.http, holder_of(address ? address->port() : 0)))
             : tried.error();
}

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
