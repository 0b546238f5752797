/** Where the hierarchical algorithms come from. */
export const HAN = 'Luo et al., "HAN: a Hierarchical AutotuNed Collective Communication Framework", 2020';
