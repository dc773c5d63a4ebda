// Starts the service "feed", a detached actor.
#include <fcntl.h>
#include <mobula/service.h>
#include <signal.h>

#include <iostream>
#include <utility>

#include "feed.h"

MOBULA_DECLARED_ONLY(Listener)

namespace {

Report report_of(std::int64_t number) { return {number, "report " + std::to_string(number)}; }

mobula::generator<Report> all_reports(std::int64_t end) {
  for (std::int64_t i = 0; i < end; ++i) co_yield report_of(i);
}

}  // namespace

std::int64_t Counter::add(std::int64_t number) { return sum_ += number; }

mobula::generator<Report> Feed::reports(std::int64_t end) { return all_reports(end); }

mobula::generator<Report> Feed::dies_once(std::int64_t end, std::int64_t death, std::string file) {
  for (std::int64_t i = 0; i < end; ++i) {
    const bool dies =
        i == death && ::open(file.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644) >= 0;
    if (dies) ::raise(SIGKILL);
    co_yield report_of(i);
  }
}

mobula::ActorHandle<Counter> Feed::make_counter(std::int64_t start) {
  auto counter = mobula::actor<Counter>.options({.num_cpus = 0}).remote();
  mobula::get(counter.call<&Counter::add>(start));
  return counter;
}

std::int64_t Feed::send_to(mobula::ActorHandle<Listener> listener, std::int64_t number) {
  return mobula::get(listener.call<&Listener::hear>(report_of(number)));
}

mobula::ObjectRefStream<Report> Feed::started(std::int64_t end) {
  return mobula::task<all_reports>.options({.num_cpus = 0}).remote(end);
}

const mobula::Service<Feed, &Feed::reports, &Feed::dies_once, &Feed::make_counter, &Feed::send_to,
                      &Feed::started>
    feed_service;
const mobula::Service<Counter, &Counter::add> counter_service;

int main(int argc, char** argv) {
  const auto cluster = mobula::init(argc, argv);
  const auto feed = mobula::actor<Feed>
                        .options({.name = "feed",
                                  .name_space = "services",
                                  .lifetime = mobula::Lifetime::detached,
                                  .num_cpus = 0,
                                  .max_restarts = 5})
                        .remote();
  mobula::get(feed.call<&Feed::make_counter>(0));
  std::cout << "the feed serves" << std::endl;
}
