/**
 * @passover/validation: applies a subagent's output_schema to what it returned, in a thread that can be killed.
 *
 * Invariants:
 * I1 No schema and no value blocks, slows or ends the process that asks: what takes too long, or too much memory, ends with its thread.
 * I2 Every question is answered, by faults: a schema that does not compile, takes too long or breaks its thread is one too.
 * I3 Nothing is fetched: a $ref that leads out of its schema is a fault.
 * I4 Where no schema is set there is no thread.
 * I5 The schemas of one agent use no more checking time than its budget; beyond that its outputs are not checked, which is said.
 */
export { type OutputSchemas, type OutputSchemasOptions, outputSchemas } from './output-schemas.js'
