// Tune: hyper-parameter search on the cluster.
//   void objective(const mobula::tune::Config& config) {
//     mobula::tune::report({{"loss", config.number("x")}});
//   }
//   auto results = mobula::tune::run<objective>(
//       {.metric = "loss", .space = {{"x", mobula::tune::uniform(-1, 1)}}, .num_samples = 20});
//
// Thread: see each header.
#pragma once

#include <mobula/mobula.h>
#include <mobula/tune/config.h>
#include <mobula/tune/resources.h>
#include <mobula/tune/run.h>
#include <mobula/tune/scheduler.h>
#include <mobula/tune/searcher.h>
#include <mobula/tune/space.h>
#include <mobula/tune/stopper.h>
#include <mobula/tune/study.h>
#include <mobula/tune/trial.h>
