// Starts the service: ledger_service FILE RESTARTS.
#include <fcntl.h>
#include <mobula/mobula.h>
#include <mobula/service.h>
#include <unistd.h>

#include <csignal>
#include <iostream>
#include <stdexcept>
#include <utility>

#include "ledger.h"

Ledger::Ledger(std::string path) : path_(std::move(path)) {}

std::int64_t Ledger::enter(std::string entry) {
  const std::string line = entry + "\n";
  const int file = ::open(path_.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0644);
  const auto written = ::write(file, line.data(), line.size());
  ::close(file);
  if (written != static_cast<ssize_t>(line.size())) throw std::runtime_error("writing " + path_);
  if (entry.starts_with("die")) ::raise(SIGKILL);
  return ++entries_;
}

std::int64_t Ledger::pid() { return ::getpid(); }

const mobula::Service<Ledger, &Ledger::enter, &Ledger::pid> ledger_service;

int main(int argc, char** argv) {
  const auto cluster = mobula::init(argc, argv);
  const auto ledger = mobula::actor<Ledger>
                          .options({.name = "ledger",
                                    .name_space = "services",
                                    .lifetime = mobula::Lifetime::detached,
                                    .num_cpus = 0,
                                    .max_restarts = std::stoi(argv[2])})
                          .remote(std::string(argv[1]));
  mobula::get(ledger.call<&Ledger::pid>());
  std::cout << "the ledger serves" << std::endl;
}
