//! Maps: keys, and a value for each.
//!
//! ONNX's maps have integers or text for keys. Here one is two vectors: the keys, ascending, and the values in the order
//! of their keys; so maps that hold the same are equal, whatever order they were made in.

use crate::{AlignedBytes, DType, Tensor, TensorError};

impl Tensor {
    /// A map of keys, integers or strings `[N]`, to values of any one type that has elements, `[N]`.
    ///
    /// # Errors
    /// [`TensorError::NoMap`] if they are not that, or a key occurs twice.
    pub fn map(keys: &Tensor, values: &Tensor) -> Result<Self, TensorError> {
        let no_map = |reason| TensorError::NoMap { reason };
        let [len] = *keys.shape() else { return Err(no_map("its keys are no vector")) };
        if values.shape() != [len] {
            return Err(no_map("its values are not as many"));
        }
        let mut order: Vec<usize> = (0..len).collect();
        let twice = if keys.dtype() == DType::String {
            let keys = keys.strings()?;
            order.sort_by_key(|&n| &keys[n]);
            order.windows(2).any(|pair| keys[pair[0]] == keys[pair[1]])
        } else {
            let dtype = Some(keys.dtype()).filter(|dtype| dtype.is_int());
            let element = |n: usize| crate::integer_element(dtype?, keys.bytes(), n);
            let keys: Option<Vec<i64>> = (0..len).map(element).collect();
            let keys = keys.filter(|_| dtype.is_some()).ok_or(no_map("its keys are neither integers nor text"))?;
            order.sort_by_key(|&n| keys[n]);
            order.windows(2).any(|pair| keys[pair[0]] == keys[pair[1]])
        };
        if twice {
            return Err(no_map("a key occurs twice"));
        }
        let both = [keys.at(&order)?, values.at(&order)?];
        Self::holding(DType::Map, both.into())
    }

    /// The keys and the values of a map.
    ///
    /// # Errors
    /// [`TensorError::WrongType`] if it is none.
    pub fn map_entries(&self) -> Result<(&Tensor, &Tensor), TensorError> {
        match (self.dtype(), self.values()?) {
            (DType::Map, [keys, values]) => Ok((keys, values)),
            (found, _) => Err(TensorError::WrongType { expected: DType::Map, found }),
        }
    }

    /// The elements of a vector at these positions, all of them in it.
    fn at(&self, positions: &[usize]) -> Result<Self, TensorError> {
        if let Ok(strings) = self.strings() {
            return Self::from_strings(&[positions.len()], positions.iter().map(|&n| strings[n].clone()).collect());
        }
        let size = self.dtype().size_bytes().ok_or(TensorError::NoMap { reason: "its values are no whole bytes" })?;
        let mut bytes = Vec::with_capacity(positions.len() * size);
        for &n in positions {
            bytes.extend_from_slice(&self.bytes()[n * size..(n + 1) * size]);
        }
        Self::from_bytes(self.dtype(), vec![positions.len()], AlignedBytes::from_slice(&bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(list: &[&str]) -> Tensor {
        Tensor::from_strings(&[list.len()], list.iter().map(|&s| s.to_owned()).collect()).unwrap()
    }

    #[test]
    fn keys_are_in_order() {
        let ints = Tensor::from_elements(&[3], &[7i64, -2, 3]).unwrap();
        let floats = Tensor::from_elements(&[3], &[0.5f32, 1.0, 2.0]).unwrap();
        let map = Tensor::map(&ints, &floats).unwrap();
        let (keys, values) = map.map_entries().unwrap();
        assert_eq!((map.dtype(), map.shape()), (DType::Map, &[2][..]));
        assert_eq!(keys.elements::<i64>().unwrap(), [-2, 3, 7]);
        assert_eq!(values.elements::<f32>().unwrap(), [1.0, 2.0, 0.5]);
        let (a, b) = (texts(&["b", "a"]), texts(&["2", "1"]));
        let (c, d) = (texts(&["a", "b"]), texts(&["1", "2"]));
        assert_eq!(Tensor::map(&a, &b).unwrap(), Tensor::map(&c, &d).unwrap());
        assert_eq!(Tensor::of_values(DType::Map, vec![a, b]).unwrap(), Tensor::map(&c, &d).unwrap());
        assert_eq!(Tensor::map(&texts(&[]), &texts(&[])).unwrap().values().unwrap().len(), 2);
    }

    #[test]
    fn what_is_no_map_is_refused() {
        let one = Tensor::from_elements(&[1], &[1i64]).unwrap();
        let two = Tensor::from_elements(&[2], &[1i64, 1]).unwrap();
        let floats = Tensor::from_elements(&[1], &[1.0f32]).unwrap();
        assert!(Tensor::map(&one, &two).is_err());
        assert!(Tensor::map(&two, &two).is_err());
        assert!(Tensor::map(&floats, &one).is_err());
        assert!(Tensor::map(&Tensor::scalar(1i64), &one).is_err());
        assert!(Tensor::of_values(DType::Map, vec![one.clone()]).is_err());
        assert!(Tensor::sequence(vec![one.clone(), one]).unwrap().map_entries().is_err());
    }
}
