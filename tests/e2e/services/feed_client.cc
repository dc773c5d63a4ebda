// Reads streams of the service "feed", and exchanges handles with it: feed_client DIRECTORY
#include <mobula/service.h>

#include <chrono>
#include <iostream>
#include <string>
#include <utility>

#include "feed.h"

MOBULA_DECLARED_ONLY(Feed)
MOBULA_DECLARED_ONLY(Counter)

namespace {

using std::chrono::seconds;

// Reads all reports, and then the error of the stream, if it has one.
void show(const std::string& name, mobula::ObjectRefStream<Report> stream) {
  std::cout << name << ":";
  try {
    std::int64_t number = 0;
    while (const auto ref = stream.next(seconds(60))) {
      const Report report = mobula::get(*ref, seconds(60));
      const bool right = report.text == "report " + std::to_string(report.number);
      std::cout << (right && report.number == number++ ? " " + std::to_string(report.number)
                                                       : " WRONG");
    }
    std::cout << " end" << std::endl;
  } catch (const mobula::Error& error) {
    std::cout << " error: " << error.what() << std::endl;
  }
}

}  // namespace

std::int64_t Listener::hear(Report report) { return report.number + 100; }

const mobula::Service<Listener, &Listener::hear> listener_service;

int main(int argc, char** argv) try {
  const auto cluster = mobula::init(argc, argv);
  const std::string directory = argv[1];
  const auto feed = mobula::get_actor<Feed>("feed", "services");
  show("reports", feed.call<&Feed::reports>(5));
  show("window", feed.method<&Feed::reports>().options({.stream_window = 2}).remote(40));
  show("started", mobula::get(feed.call<&Feed::started>(3)));
  show("dies", feed.call<&Feed::dies_once>(6, 3, directory + "/feed 1"));
  show("repeats", feed.method<&Feed::dies_once>()
                      .options({.max_task_retries = 1})
                      .remote(6, 3, directory + "/feed 2"));
  auto counter = mobula::get(feed.call<&Feed::make_counter>(5));
  std::cout << "counter: " << mobula::get(counter.call<&Counter::add>(2)) << std::endl;
  const auto listener = mobula::actor<Listener>.options({.num_cpus = 0}).remote();
  std::cout << "listener: " << mobula::get(feed.call<&Feed::send_to>(listener, 7)) << std::endl;
} catch (const std::exception& error) {
  std::cerr << "feed_client: " << error.what() << std::endl;
  return 1;
}
