// Two classes of two programs: a service that gives streams, and a listener of its client.
#pragma once

#include <mobula/mobula.h>

#include <cstdint>
#include <string>

struct Report {
  std::int64_t number = 0;
  std::string text;
};

class Counter {
 public:
  std::int64_t add(std::int64_t number);

 private:
  std::int64_t sum_ = 0;
};

class Listener {
 public:
  std::int64_t hear(Report report);
};

class Feed {
 public:
  mobula::generator<Report> reports(std::int64_t end);
  // Ends the process before report `death` unless `file` exists, which it makes.
  mobula::generator<Report> dies_once(std::int64_t end, std::int64_t death, std::string file);
  mobula::ActorHandle<Counter> make_counter(std::int64_t start);
  std::int64_t send_to(mobula::ActorHandle<Listener> listener, std::int64_t number);
  mobula::ObjectRefStream<Report> started(std::int64_t end);
};
