// What is special about callables of this room: each of its files brings its rows of the call table.
#pragma once

namespace stator::interpret {

void registerClasses();
void registerInstanceChecks();
void registerLazyModules();
void registerOptimizerStates();
void registerSwitches();

}  // namespace stator::interpret
