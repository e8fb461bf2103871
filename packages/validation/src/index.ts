/**
 * @passover/validation: validates a subagent's output against its output_schema, in a thread that can be killed.
 *
 * Invariants:
 * I1  No schema and no value blocks, slows or ends the calling process: a check that takes too long or too much memory ends with its thread.
 * I2  Every check is answered with a list of faults: a schema that does not compile, takes too long or breaks its thread is a fault, too.
 * I3  Nothing is fetched: a $ref to outside of its schema is a fault.
 * I4  Without a schema there is no thread.
 * I5  The schemas of one agent use no more checking time than its budget; beyond that its outputs are reported as unchecked.
 */
export { type OutputSchemas, type OutputSchemasOptions, outputSchemas } from './output-schemas.js'
