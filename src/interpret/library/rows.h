// What is special about callables of this room: each of its files brings its rows of the call table.
#pragma once

namespace stator::interpret {

void allowSymbolsInHandlers();
void registerAskedOnce();
void registerBuiltins();
void registerContainers();
void registerDictMethods();
void registerIterators();
void registerItertools();
void registerLibrary();
void registerLogging();
void registerMath();  // called by registerNumbers
void registerNamespaces();
void registerNumbers();
void registerOperatorFunctions();
void registerOrderings();
void registerSetMethods();
void registerTypeParameters();
void registerTypes();
void registerWarnings();
void registerWeakReferences();

}  // namespace stator::interpret
